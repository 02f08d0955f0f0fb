import { LABEL_MAX, ROLE_LEAST, ROLES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { plainText, timestamp } from "../field.ts";
import { ApiKey } from "./api-key.ts";

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
    name: plainText.trim().min(1).max(LABEL_MAX),
    role: z.enum(ROLES).default(ROLE_LEAST).meta({
      description: "What the key may do; not above the caller's own role. The least by default",
    }),
    expires_at: timestamp.optional().meta({ description: "RFC 3339, UTC; never by default" }),
  },
  response: ApiKey.extend({ secret: z.string() }).meta({ id: "ApiKeyWithSecret" }),
});
