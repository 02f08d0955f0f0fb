import { SSO_REFUSALS, type SsoRefusal } from "@millrace/domain";

const TEXTS: Record<SsoRefusal, string> = {
  expired: "The sign-in has expired, or was started in another browser. Try again.",
  cancelled: "The sign-in was cancelled at your identity provider.",
  other_person:
    "Another person than you signed in at your identity provider. Try again as yourself.",
  provider: "Your identity provider did not confirm the sign-in. Try again, or ask an owner.",
  email_unverified: "Your identity provider has not verified your email address.",
  domain_not_allowed: "Your email address has a domain that your organization does not allow.",
  account_exists:
    "Your email address has an account that does not belong to this organization. Ask for an invitation, and accept it with that account.",
  removed: "You were removed from the organization. Ask for an invitation.",
  limit_exceeded: "The organization has no room for another member. Ask an owner.",
  internal: "The sign-in failed. Try again in a moment.",
};

/** Why a sign-in at an identity provider failed; undefined where `refusal` is none that we know. */
export function ssoRefusalText(refusal: string | null): string | undefined {
  return SSO_REFUSALS.includes(refusal as SsoRefusal) ? TEXTS[refusal as SsoRefusal] : undefined;
}
