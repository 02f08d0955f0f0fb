import { z } from "zod";
import { defineContract } from "../contract.ts";

export const deleteSingleSignOn = defineContract({
  name: "singleSignOn.delete",
  method: "DELETE",
  path: "/v1/single-sign-on",
  summary: "Remove single sign-on",
  description:
    "Ends every session that it opened. Members stay; those without a password cannot sign in until it is set up again. An API key needs all permissions of an owner, and neither an expiry nor allowed addresses.",
  tag: "Single sign-on",
  permission: "sso:write",
  stepUp: true,
  successStatus: 204,
  response: z.null(),
});
