import {
  type BrokerLink,
  type BrokerSlot,
  type ClusterId,
  GATEWAY_SILENT_MS_MAX,
  LINK_CREDENTIALS_PER_SLOT,
} from "@millrace/domain";
import type { Client } from "./client.ts";

interface LinkRow {
  readonly clusterId: ClusterId;
  readonly brokerId: number;
  readonly isConnected: boolean;
  readonly connectedAt: Date;
  readonly lastHeardAt: Date;
  readonly disconnectedAt: Date | null;
  readonly remoteAddress: string;
  readonly brokerVersion: string;
}

/** Credentials and links of one tenant's brokers. The caller has checked the tenant. */
export class BrokerLinkRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Stores a credential by the SHA-256 of its text and revokes all of the slot but the newest two. */
  async issueCredential(
    { clusterId, brokerId }: BrokerSlot,
    secretHash: Uint8Array<ArrayBuffer>,
  ): Promise<void> {
    // Until the transaction ends: two that issue at the same time would not see each other's.
    const key = `broker_credential ${clusterId} ${brokerId}`;
    await this.#client.$queryRaw`SELECT pg_advisory_xact_lock(hashtextextended(${key}, 0))::text`;
    await this.#client.brokerCredential.create({ data: { secretHash, clusterId, brokerId } });
    await this.#client.$executeRaw`
      DELETE FROM broker_credential WHERE cluster_id = ${clusterId} AND broker_id = ${brokerId}::int
        AND secret_hash NOT IN (
          SELECT secret_hash FROM broker_credential
          WHERE cluster_id = ${clusterId} AND broker_id = ${brokerId}::int
          ORDER BY created_at DESC LIMIT ${LINK_CREDENTIALS_PER_SLOT}::int)`;
  }

  /** Revokes the credential with this SHA-256. */
  async withdrawCredential(secretHash: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.#client.brokerCredential.deleteMany({ where: { secretHash } });
  }

  /** Revokes every credential of the cluster, or of one broker; gateways end its links within seconds. */
  async revokeCredentials(clusterId: ClusterId, brokerId?: number): Promise<number> {
    const where = { clusterId, ...(brokerId !== undefined && { brokerId }) };
    return (await this.#client.brokerCredential.deleteMany({ where })).count;
  }

  /** The newest link of each slot of these clusters that ever had one, by cluster and broker. */
  async list(clusterIds: readonly ClusterId[]): Promise<BrokerLink[]> {
    const rows = await this.#client.$queryRaw<LinkRow[]>`
      SELECT l.cluster_id AS "clusterId", l.broker_id AS "brokerId", l.connected_at AS "connectedAt",
        l.last_heard_at AS "lastHeardAt", l.disconnected_at AS "disconnectedAt",
        l.remote_address AS "remoteAddress", l.broker_version AS "brokerVersion",
        l.disconnected_at IS NULL AND EXISTS (SELECT 1 FROM gateway g WHERE g.id = l.gateway_id
          AND g.last_seen_at > now() - ${GATEWAY_SILENT_MS_MAX}::int * interval '1 millisecond') AS "isConnected"
      FROM broker_link l WHERE l.cluster_id = ANY(${clusterIds}) ORDER BY l.cluster_id, l.broker_id`;
    return rows.map((row) => ({
      clusterId: row.clusterId,
      brokerId: row.brokerId,
      state: row.isConnected ? "connected" : "disconnected",
      since: row.isConnected ? row.connectedAt : (row.disconnectedAt ?? row.lastHeardAt),
      lastHeardAt: row.lastHeardAt,
      remoteAddress: row.remoteAddress,
      brokerVersion: row.brokerVersion,
    }));
  }
}
