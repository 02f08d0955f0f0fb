/** Whom a provider vouches for. Every claim is checked: tenants choose the providers, and providers let people enter most of them. */
import { EMAIL_LENGTH_MAX, mailDomainOf, SSO_SUBJECT_MAX, SsoRefused } from "@millrace/domain";
import { z } from "zod";

const NAME_LENGTH_MAX = 100;
/**
 * Google serves all of its customers with one issuer, and verifies addresses of any domain for personal accounts. Only `hd`
 * says that an account belongs to the customer who owns the domain.
 */
const GOOGLE = "https://accounts.google.com";
/** OpenID Connect Core 1.0, section 2: ASCII. */
const Subject = z
  .string()
  .max(SSO_SUBJECT_MAX)
  .regex(/^[\x20-\x7e]+$/);
/** As invitations have it. */
const Email = z.email().max(EMAIL_LENGTH_MAX).toLowerCase();
/** No control characters, half characters, or marks that change the direction of what follows. */
const SHOWN = /^[^\p{Cc}\p{Cs}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+$/u;

export interface VouchedPerson {
  /** Stable within the issuer. */
  readonly subject: string;
  /** In lower case; the provider has verified it. */
  readonly email: string;
  readonly name: string;
  /** The organization must allow all of them. */
  readonly domains: readonly string[];
  /** The epoch where the provider does not say. */
  readonly authenticatedAt: Date;
}

/** Throws `SsoRefused`. `claims` are those of the ID token, or of the user information where that has no address. */
export function vouchedPerson(
  issuer: string,
  { sub, auth_time: authTime }: { readonly sub: string; readonly auth_time?: number | undefined },
  claims: Readonly<Record<string, unknown>>,
): VouchedPerson {
  if (!Subject.safeParse(sub).success) {
    throw new SsoRefused("provider", "The identity provider's subject is not ASCII text.");
  }
  const { data: email } = Email.safeParse(claims.email);
  const domain = email && mailDomainOf(email);
  // Providers let people enter any address; only a verified one says who they are.
  if (!email || !domain || claims.email_verified !== true) {
    throw new SsoRefused(
      "email_unverified",
      "The identity provider has not verified the e-mail address.",
    );
  }
  const hosted = issuer === GOOGLE ? [String(claims.hd ?? "no hosted domain")] : [];
  const name = typeof claims.name === "string" ? claims.name.trim() : "";
  return {
    ...{ subject: sub, email },
    name: SHOWN.test(name) ? [...name].slice(0, NAME_LENGTH_MAX).join("") : email,
    domains: [domain, ...hosted],
    authenticatedAt: new Date(Math.min((authTime ?? 0) * 1_000, Date.now())),
  };
}
