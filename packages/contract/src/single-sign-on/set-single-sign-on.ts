import {
  ROLE_LEAST,
  SSO_DOMAIN_LENGTH_MAX,
  SSO_DOMAIN_PATTERN,
  SSO_DOMAINS_MAX,
  SSO_ROLES,
} from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { plainText } from "../field.ts";
import { SingleSignOn } from "./single-sign-on.ts";

const TEXT_MAX = 500;

export const setSingleSignOn = defineContract({
  name: "singleSignOn.set",
  method: "POST",
  path: "/v1/single-sign-on",
  summary: "Set up single sign-on",
  description:
    "Connects the organization to an OpenID Connect provider, or changes the connection. The provider must be on the public Internet, unless the installation allows its address. It must send `email` and `email_verified`. Whoever signs in for the first time becomes a member with `default_role`. Another issuer or client_id ends every session by single sign-on, as does a removed domain. The former also have another `redirect_uri`. An API key needs all permissions of an owner, and neither an expiry nor allowed addresses.",
  tag: "Single sign-on",
  permission: "sso:write",
  stepUp: true,
  successStatus: 200,
  body: {
    issuer: z
      .url({ protocol: /^https$/, error: "must be an https URL", abort: true })
      .max(TEXT_MAX)
      .refine((text) => !/[?#]|\/\.well-known\//.test(text), {
        error: "must be the issuer itself, without query, fragment and /.well-known/",
      })
      .meta({ description: "As the provider's metadata has it" }),
    client_id: plainText.min(1).max(TEXT_MAX),
    client_secret: plainText.min(1).max(TEXT_MAX).optional().meta({
      description: "Stored encrypted. Absent: the stored one stays, if issuer and client_id do",
    }),
    domains: z
      .array(
        z
          .string()
          .max(SSO_DOMAIN_LENGTH_MAX)
          .toLowerCase()
          .regex(SSO_DOMAIN_PATTERN, "must be a domain like example.com"),
      )
      .min(1)
      .max(SSO_DOMAINS_MAX)
      .meta({ description: "Domains of the e-mail addresses that may sign in" }),
    default_role: z.enum(SSO_ROLES).default(ROLE_LEAST),
    required: z.boolean().default(false).meta({
      description: "Passwords of members who are not owners give no access. API keys still do",
    }),
  },
  response: SingleSignOn,
});
