import { createHash, randomBytes } from "node:crypto";
import type { Database } from "@millrace/db";
import { linkCredential } from "@millrace/domain";
import type { LinkCredentials } from "@millrace/provisioner";

const SECRET_BYTES = 32;

function hashOf(credential: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createHash("sha256").update(credential).digest());
}

/** The control plane's database as the place where credentials of brokers are kept, hashed. */
export function linkCredentialsIn(db: Pick<Database, "fleet" | "tenant">): LinkCredentials {
  return {
    async issue(slot) {
      const cluster = await db.fleet.clusters.load(slot.clusterId);
      if (!cluster) throw new Error(`there is no cluster ${slot.clusterId}`);
      const credential = linkCredential(randomBytes(SECRET_BYTES).toString("base64url"));
      await db.tenant(cluster.organizationId).brokerLinks.issueCredential(slot, hashOf(credential));
      return credential;
    },
    async withdraw({ clusterId }, credential) {
      const cluster = await db.fleet.clusters.load(clusterId);
      if (!cluster) return;
      await db.tenant(cluster.organizationId).brokerLinks.withdrawCredential(hashOf(credential));
    },
    async revoke(clusterId, brokerId) {
      const cluster = await db.fleet.clusters.load(clusterId);
      if (!cluster) return;
      await db.tenant(cluster.organizationId).brokerLinks.revokeCredentials(clusterId, brokerId);
    },
  };
}
