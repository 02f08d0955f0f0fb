import {
  EMAIL_LENGTH_MAX,
  INVITATION_DAYS_DEFAULT,
  INVITATION_DAYS_MAX,
  ROLE_LEAST,
  ROLES,
} from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { Invitation } from "./invitation.ts";

export const createInvitation = defineContract({
  name: "invitation.create",
  method: "POST",
  path: "/v1/invitations",
  summary: "Invite a person",
  description:
    "The token is returned once. Send the person the link `<console>/invitation#<token>`; the mail outbox has it, encrypted, until somebody reads it there. An earlier invitation of the same address is revoked.",
  tag: "Members",
  permission: "member:write",
  stepUp: true,
  successStatus: 201,
  holdsSecret: true,
  body: {
    email: z.email().max(EMAIL_LENGTH_MAX).toLowerCase(),
    role: z.enum(ROLES).default(ROLE_LEAST).meta({
      description: "Not above the caller's own role. The least by default",
    }),
    expires_in_days: z.int().min(1).max(INVITATION_DAYS_MAX).default(INVITATION_DAYS_DEFAULT),
  },
  response: Invitation.extend({ token: z.string() }).meta({ id: "InvitationWithToken" }),
});
