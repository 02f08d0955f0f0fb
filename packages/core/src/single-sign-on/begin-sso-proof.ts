import type { SsoAttempt } from "@millrace/auth";
import type { OrganizationId, SessionId } from "@millrace/domain";
import type { CoreParts } from "../core.ts";
import { providerOf } from "./provider-access.ts";

export interface BeginSsoProofInput {
  readonly organizationId: OrganizationId;
  readonly sessionId: SessionId;
  readonly email: string;
  readonly returnTo: string;
}

/** Where to send a signed-in person who has to prove their identity again. Throws `SsoRefused`. */
export async function beginSsoProof(
  parts: CoreParts,
  { organizationId, sessionId, email, returnTo }: BeginSsoProofInput,
): Promise<{ readonly location: string; readonly attempt: SsoAttempt }> {
  const { connection, access } = await providerOf(parts, organizationId);
  const options = { proof: true, loginHint: email };
  const { location, challenge } = await parts.identityProviders.begin(access, options);
  const attempt = { organizationId, connectionId: connection.id, challenge, returnTo, sessionId };
  return { location, attempt };
}
