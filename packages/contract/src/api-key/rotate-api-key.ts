import { API_KEY_OVERLAP_HOURS_DEFAULT, API_KEY_OVERLAP_HOURS_MAX } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { ApiKeyWithSecret } from "./api-key.ts";

export const rotateApiKey = defineContract({
  name: "apiKey.rotate",
  method: "POST",
  path: "/v1/api-keys/{api_key_id}/rotate",
  summary: "Rotate an API key",
  description:
    "Gives the key a new secret, which is returned once and not stored. The previous one works for `overlap_hours` more.",
  tag: "API keys",
  permission: "apikey:write",
  successStatus: 200,
  stepUp: true,
  holdsSecret: true,
  params: { api_key_id: pathId("key") },
  body: {
    overlap_hours: z
      .int()
      .min(0)
      .max(API_KEY_OVERLAP_HOURS_MAX)
      .default(API_KEY_OVERLAP_HOURS_DEFAULT),
  },
  response: ApiKeyWithSecret,
});
