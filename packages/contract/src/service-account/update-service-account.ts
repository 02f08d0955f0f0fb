import { ROLES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { descriptionText, ServiceAccount } from "./service-account.ts";

export const updateServiceAccount = defineContract({
  name: "serviceAccount.update",
  method: "PATCH",
  path: "/v1/service-accounts/{service_account_id}",
  summary: "Change a service account",
  description:
    "A lower role and `disabled` take effect immediately for all of its API keys. A higher role revokes the keys: create new ones afterwards. Neither the old nor the new role may be above the caller's own.",
  tag: "Service accounts",
  permission: "apikey:write",
  stepUp: true,
  successStatus: 200,
  params: { service_account_id: pathId("svc") },
  body: {
    description: descriptionText.optional(),
    role: z.enum(ROLES).optional(),
    disabled: z.boolean().optional(),
  },
  response: ServiceAccount,
});
