import { defineContract } from "../contract.ts";
import { SingleSignOn } from "./single-sign-on.ts";

export const getSingleSignOn = defineContract({
  name: "singleSignOn.get",
  method: "GET",
  path: "/v1/single-sign-on",
  summary: "Get single sign-on",
  description: "The organization's identity provider. The client secret is never returned.",
  tag: "Single sign-on",
  permission: "sso:read",
  successStatus: 200,
  response: SingleSignOn,
});
