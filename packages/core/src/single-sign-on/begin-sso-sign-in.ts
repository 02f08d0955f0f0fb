import type { SsoAttempt } from "@millrace/auth";
import { DomainError, mailDomainOf } from "@millrace/domain";
import type { CoreParts } from "../core.ts";
import { providerOf } from "./provider-access.ts";

export interface BeginSsoInput {
  /** The organization's slug, or a mail address. */
  readonly name: string;
  readonly returnTo: string;
}

/** Where to send the browser, and what it has to keep. Throws `not_found`, `SsoRefused`. */
export async function beginSsoSignIn(
  parts: CoreParts,
  { name, returnTo }: BeginSsoInput,
): Promise<{ readonly location: string; readonly attempt: SsoAttempt }> {
  const domain = mailDomainOf(name);
  const organizationId = await parts.db.signIn.findSsoOrganization(
    ...([domain === undefined ? name.toLowerCase() : "", domain ?? ""] as const),
  );
  if (organizationId === undefined) {
    throw new DomainError("not_found", `There is no single sign-on for ${name}.`, {
      remedy: "Check the name of your organization, or sign in with your password.",
    });
  }
  const { connection, access } = await providerOf(parts, organizationId);
  const { location, challenge } = await parts.identityProviders.begin(access, {
    proof: false,
    loginHint: domain === undefined ? undefined : name,
  });
  const connectionId = connection.id;
  return { location, attempt: { organizationId, connectionId, challenge, returnTo } };
}
