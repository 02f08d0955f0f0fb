/**
 * A sign-in by single sign-on between its two requests, kept in a cookie of the browser that began it, sealed. The answer of a
 * provider works in no other browser, so nobody can be signed in to somebody else's account (RFC 6749, 10.12), and
 * outsiders fill no table.
 */
import type { OrganizationId, SessionId, SsoConnectionId } from "@millrace/domain";
import type { SsoChallenge } from "./identity-providers.ts";
import { SecretSeal } from "./secret-seal.ts";

/** The time that a person has at the provider. */
export const SSO_ATTEMPT_SECONDS = 600;
const OWNER = ["sso attempt"];

export interface SsoAttempt {
  readonly organizationId: OrganizationId;
  readonly connectionId: SsoConnectionId;
  readonly challenge: SsoChallenge;
  /** A path of the console. */
  readonly returnTo: string;
  /** The session whose user proves their identity again; absent where somebody signs in. */
  readonly sessionId?: SessionId;
}

export class SsoAttempts {
  readonly #seal: SecretSeal;

  constructor(installationSecret: string) {
    this.#seal = new SecretSeal(installationSecret, "millrace sso attempt");
  }

  seal(attempt: SsoAttempt): string {
    return Buffer.from(this.#seal.seal(JSON.stringify(attempt), OWNER)).toString("base64url");
  }

  /** Undefined where it is not ours, or too old. */
  open(cookie: string | undefined): SsoAttempt | undefined {
    const text = cookie && this.#seal.open(Buffer.from(cookie, "base64url"), OWNER);
    if (!text) return undefined;
    const attempt = JSON.parse(text) as SsoAttempt;
    const ageMs = Date.now() - attempt.challenge.begunAtMs;
    return ageMs <= SSO_ATTEMPT_SECONDS * 1_000 ? attempt : undefined;
  }
}
