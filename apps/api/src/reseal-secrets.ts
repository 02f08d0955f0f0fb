/**
 * After a rotation of `MILLRACE_AUTH_SECRET`, what the secrets before it have sealed is sealed again, so that they can be
 * forgotten. Nobody waits for it: replaced secrets open what they sealed until then.
 */
import { createIdentity } from "@millrace/auth";
import { resealClientSecrets, ssoSecretSeal } from "@millrace/core";
import type { Database } from "@millrace/db";
import type { Logger } from "pino";

export interface ResealOptions {
  readonly db: Database;
  readonly log: Logger;
  readonly secret: string;
  /** Newest first. */
  readonly replacedSecrets: readonly string[];
  readonly apiUrl: string;
}

/** Logs how many secrets were sealed again, and whether the replaced ones are still needed. */
export async function resealSecrets(options: ResealOptions): Promise<void> {
  const { db, log, secret, replacedSecrets, apiUrl } = options;
  const identity = createIdentity({ db, secret, replacedSecrets, apiUrl, trustedOrigins: [] });
  const secondFactors = await identity.resealSecondFactors();
  const ssoSecrets = ssoSecretSeal(secret, replacedSecrets);
  const clientSecrets = await resealClientSecrets({ db, ssoSecrets });
  const counts = { second_factors: secondFactors, client_secrets: clientSecrets };
  if (secondFactors.left + clientSecrets.left > 0) {
    log.warn(
      counts,
      "some second factors or client secrets could not be sealed with MILLRACE_AUTH_SECRET",
    );
  } else {
    log.info(counts, "second factors and client secrets are sealed with MILLRACE_AUTH_SECRET");
  }
}
