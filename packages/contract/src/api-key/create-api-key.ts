import { API_KEY_ADDRESSES_MAX, LABEL_MAX, PERMISSIONS, ROLE_LEAST, ROLES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { plainText, timestamp } from "../field.ts";
import { ApiKeyWithSecret } from "./api-key.ts";

/** Of every new key, whoever it belongs to. */
export const keyFields = {
  name: plainText.trim().min(1).max(LABEL_MAX),
  permissions: z.array(z.enum(PERMISSIONS)).min(1).max(PERMISSIONS.length).optional().meta({
    description: "Narrows the role to these permissions; all of them by default",
  }),
  allowed_addresses: z.array(z.string().max(50)).max(API_KEY_ADDRESSES_MAX).default([]).meta({
    description: "Addresses and CIDR blocks that the key works from; any by default",
  }),
  expires_at: timestamp.optional().meta({ description: "RFC 3339, UTC; never by default" }),
} as const;

export const createApiKey = defineContract({
  name: "apiKey.create",
  method: "POST",
  path: "/v1/api-keys",
  summary: "Create an API key",
  description: "The secret is returned once and not stored.",
  tag: "API keys",
  permission: "apikey:write",
  stepUp: true,
  successStatus: 201,
  holdsSecret: true,
  body: {
    ...keyFields,
    role: z.enum(ROLES).default(ROLE_LEAST).meta({
      description: "What the key may do; not above the caller's own role. The least by default",
    }),
  },
  response: ApiKeyWithSecret,
});
