import { LABEL_MAX, ROLES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { plainText, timestamp } from "../field.ts";
import { ApiKey } from "./api-key.ts";

export const createApiKey = defineContract({
  name: "apiKey.create",
  method: "POST",
  path: "/v1/api-keys",
  summary: "Create an API key; its secret is shown this once",
  tag: "API keys",
  permission: "apikey:write",
  successStatus: 201,
  holdsSecret: true,
  body: {
    name: plainText.trim().min(1).max(LABEL_MAX),
    role: z.enum(ROLES).default("admin"),
    expires_at: timestamp.optional(),
  },
  response: ApiKey.extend({ secret: z.string() }).meta({ id: "ApiKeyWithSecret" }),
});
