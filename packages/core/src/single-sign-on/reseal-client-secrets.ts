import type { Resealed } from "@millrace/db";
import type { OrganizationId } from "@millrace/domain";
import type { CoreParts } from "../core.ts";

/** Organizations that are looked up at a time. */
const ORGANIZATIONS = 100;

type Parts = Pick<CoreParts, "db" | "ssoSecrets">;

/** Seals client secrets by the installation's secret in use where a replaced one sealed them. */
export async function resealClientSecrets(parts: Parts): Promise<Resealed> {
  let [resealed, left] = [0, 0];
  for (let after = ""; ; ) {
    const ids = await parts.db.signIn.ssoOrganizationsAfter(after, ORGANIZATIONS);
    const last = ids.at(-1);
    if (last === undefined) return { resealed, left };
    after = last;
    for (const id of ids) {
      const outcome = await resealOf(parts, id);
      if (outcome === "resealed") resealed += 1;
      if (outcome === "left") left += 1;
    }
  }
}

async function resealOf(
  { db, ssoSecrets }: Parts,
  organizationId: OrganizationId,
): Promise<"resealed" | "left" | "current"> {
  const { ssoConnections } = db.tenant(organizationId);
  const stored = await ssoConnections.find(organizationId);
  if (!stored) return "current";
  const { connection, clientSecret } = stored;
  const owner = [organizationId, connection.id];
  const sealed = ssoSecrets.reseal(clientSecret, owner);
  if (!sealed) return ssoSecrets.open(clientSecret, owner) === undefined ? "left" : "current";
  const done = await ssoConnections.replaceClientSecret(connection.id, clientSecret, sealed);
  return done ? "resealed" : "left";
}
