import { ROLE_LEAST, ROLES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { descriptionText, ServiceAccount, serviceAccountName } from "./service-account.ts";

export const createServiceAccount = defineContract({
  name: "serviceAccount.create",
  method: "POST",
  path: "/v1/service-accounts",
  summary: "Create a service account",
  description:
    "A member of the organization for programs: it has a role and its own API keys, and cannot sign in.",
  tag: "Service accounts",
  permission: "apikey:write",
  stepUp: true,
  successStatus: 201,
  example: { name: "deploy", role: "operator" },
  body: {
    name: serviceAccountName,
    description: descriptionText.default(""),
    role: z.enum(ROLES).default(ROLE_LEAST).meta({
      description: "Not above the caller's own role. The least by default",
    }),
  },
  response: ServiceAccount,
});
