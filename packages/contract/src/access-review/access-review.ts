import {
  ACCESS_FINDINGS,
  ACCESS_KINDS,
  ACCESS_REVIEW_KEYS_MAX,
  ACCESS_UNUSED_DAYS,
  PERMISSIONS,
  ROLES,
  SIGN_IN_METHODS,
} from "@millrace/domain";
import { z } from "zod";
import { Actor } from "../actor.ts";
import { timestamp } from "../field.ts";
import { customRoleRef } from "../role/role.ts";

export const Access = z
  .object({
    kind: z.enum(ACCESS_KINDS),
    id: z.string(),
    name: z
      .string()
      .meta({ description: "An email address, a name, or the issuer of single sign-on" }),
    role: z.enum(ROLES).meta({
      description:
        "The built-in role. Of a custom role: the least that has its permissions. Of single sign-on: the default role",
    }),
    custom_role: customRoleRef,
    permissions: z.array(z.enum(PERMISSIONS)).nullable().meta({
      description: "What an API key or a custom role is limited to. null: all that the role grants",
    }),
    created_at: timestamp,
    last_used_at: timestamp.nullable().meta({ description: "Of a member: exact to the hour" }),
    expires_at: timestamp.nullable(),
    second_factor: z.boolean().nullable().meta({ description: "null: not a person" }),
    sign_in: z.array(z.enum(SIGN_IN_METHODS)).meta({ description: "How a member can sign in" }),
    domains: z.array(z.string()).meta({
      description: "Of single sign-on: mail domains of those who can sign in",
    }),
    disabled: z.boolean().meta({ description: "Of a service account and its keys" }),
    findings: z.array(z.enum(ACCESS_FINDINGS)).meta({
      description: `unused: for ${ACCESS_UNUSED_DAYS} days. no_second_factor: a password alone opens it. default_admin: the first sign-in makes somebody an admin`,
    }),
  })
  .meta({ id: "Access" });
export type Access = z.infer<typeof Access>;

const count = z.int().min(0);

export const AccessReviewRecord = z
  .object({
    id: z.string(),
    reviewed_at: timestamp,
    reviewed_by: Actor,
    digest: z.string().nullable().meta({
      description: "Of the access that was reviewed. null: recorded by a version without digests",
    }),
    complete: z.boolean().meta({
      description:
        "Whether the review listed all access. false: recorded by a version that did not check",
    }),
    counts: z.object({
      total: count,
      kinds: z.record(z.enum(ACCESS_KINDS), count),
      findings: z.record(z.enum(ACCESS_FINDINGS), count),
    }),
  })
  .meta({ id: "AccessReviewRecord" });
export type AccessReviewRecord = z.infer<typeof AccessReviewRecord>;

export const AccessReview = z
  .object({
    items: z.array(Access),
    complete: z.boolean().meta({
      description: `false: there are more than ${ACCESS_REVIEW_KEYS_MAX} API keys. Those never used or unused for longest are listed, and the review cannot be recorded`,
    }),
    digest: z.string().meta({
      description:
        "SHA-256 of the IDs, roles, permissions, domains and disabled states. Recording the review needs it",
    }),
    last_review: AccessReviewRecord.nullable().meta({ description: "null: never reviewed" }),
  })
  .meta({ id: "AccessReview" });
export type AccessReview = z.infer<typeof AccessReview>;
