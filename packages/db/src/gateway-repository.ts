import { type BrokerSlot, type ClusterId, GATEWAY_SILENT_MS_MAX } from "@millrace/domain";
import type { Client } from "./client.ts";

/** One process that holds links. */
export interface GatewayIdentity {
  /** New for each start. */
  readonly id: string;
  /** Where other gateways send requests for the brokers that it holds. */
  readonly internalUrl: string;
}

export interface NewLink extends BrokerSlot {
  /** New for each connection. */
  readonly linkId: string;
  readonly remoteAddress: string;
  readonly brokerVersion: string;
  readonly brokerStart: string;
  /** Time since the connection was made. */
  readonly ageMs: number;
}

/** A link that a gateway holds. */
export interface HeldLink {
  readonly linkId: string;
  readonly secretHash: Uint8Array;
  /** Time since the broker's last frame. */
  readonly silentMs: number;
}

/** A link that has ended. */
export interface LostLink {
  readonly linkId: string;
  /** Time since the broker's last frame. */
  readonly silentMs: number;
  /** Time since the end. */
  readonly endedMs: number;
}

/** Where a slot's link is. */
export interface LinkHolder {
  /** Undefined where no gateway that lives holds the link. */
  readonly gateway: GatewayIdentity | undefined;
  /** When the broker was last known to be connected. */
  readonly lastHeardAt: Date;
}

/**
 * What gateways know of all tenants' brokers: whose a credential is, and which of them holds which link. Times come from the
 * database's clock, minus ages that a process measures by its own.
 */
export class GatewayRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Registers a gateway that starts. Whichever listened at its address before has ended. */
  async register({ id, internalUrl }: GatewayIdentity): Promise<void> {
    await this.#client.$executeRaw`
      WITH ended AS (DELETE FROM gateway WHERE internal_url = ${internalUrl} AND id <> ${id} RETURNING id)
      UPDATE broker_link SET disconnected_at = last_heard_at
      WHERE disconnected_at IS NULL AND gateway_id IN (SELECT id FROM ended)`;
    await this.touch({ id, internalUrl });
  }

  /** Says that the gateway lives, and removes those that do not. */
  async touch({ id, internalUrl }: GatewayIdentity): Promise<void> {
    await this.#client.$executeRaw`
      INSERT INTO gateway (id, internal_url, last_seen_at) VALUES (${id}, ${internalUrl}, now())
      ON CONFLICT (id) DO UPDATE SET last_seen_at = now()`;
    await this.#client.$executeRaw`
      WITH ended AS (DELETE FROM gateway
        WHERE last_seen_at < now() - ${GATEWAY_SILENT_MS_MAX}::int * interval '1 millisecond' RETURNING id)
      UPDATE broker_link SET disconnected_at = last_heard_at
      WHERE disconnected_at IS NULL AND gateway_id IN (SELECT id FROM ended)`;
  }

  /** Removes a gateway that stops, after its links. */
  async remove(id: string): Promise<void> {
    await this.#client.$executeRaw`DELETE FROM gateway WHERE id = ${id}`;
  }

  /** The slot of a credential that is valid, by the SHA-256 of its text. */
  async slotOf(secretHash: Uint8Array<ArrayBuffer>): Promise<BrokerSlot | undefined> {
    const row = await this.#client.brokerCredential.findUnique({ where: { secretHash } });
    return row ? { clusterId: row.clusterId as ClusterId, brokerId: row.brokerId } : undefined;
  }

  /** Makes it the slot's link; false where the slot has a newer one. */
  async claim(gatewayId: string, link: NewLink): Promise<boolean> {
    const count = await this.#client.$executeRaw`
      INSERT INTO broker_link AS l (cluster_id, broker_id, link_id, gateway_id, connected_at, last_heard_at,
        remote_address, broker_version, broker_start)
      VALUES (${link.clusterId}, ${link.brokerId}::int, ${link.linkId}, ${gatewayId},
        now() - ${link.ageMs}::float8 * interval '1 millisecond', now(),
        ${link.remoteAddress}, ${link.brokerVersion}, ${link.brokerStart})
      ON CONFLICT (cluster_id, broker_id) DO UPDATE SET
        link_id = excluded.link_id, gateway_id = excluded.gateway_id,
        connected_at = excluded.connected_at, last_heard_at = excluded.last_heard_at,
        disconnected_at = NULL, remote_address = excluded.remote_address,
        broker_version = excluded.broker_version, broker_start = excluded.broker_start
      WHERE l.connected_at <= excluded.connected_at OR l.link_id = excluded.link_id`;
    return count === 1;
  }

  /** Stores when brokers were last heard from. Links that are not their slot's any more are left out. */
  async heard(links: readonly HeldLink[]): Promise<void> {
    await this.#client.$executeRaw`
      UPDATE broker_link l SET disconnected_at = NULL,
        last_heard_at = now() - h.silent_ms * interval '1 millisecond'
      FROM unnest(${ids(links)}::text[], ${silences(links)}::float8[]) AS h (link_id, silent_ms)
      WHERE l.link_id = h.link_id`;
  }

  /** Stores that links have ended. Those that are not their slot's any more are left out. */
  async lost(links: readonly LostLink[]): Promise<void> {
    const ended = links.map(({ endedMs }) => endedMs);
    await this.#client.$executeRaw`
      UPDATE broker_link l SET disconnected_at = now() - h.ended_ms * interval '1 millisecond',
        last_heard_at = now() - h.silent_ms * interval '1 millisecond'
      FROM unnest(${ids(links)}::text[], ${silences(links)}::float8[], ${ended}::float8[])
        AS h (link_id, silent_ms, ended_ms)
      WHERE l.link_id = h.link_id AND l.disconnected_at IS NULL`;
  }

  /** Which of the links are to end: their credential was revoked, or their slot has a newer link. */
  async ended(links: readonly HeldLink[]): Promise<Map<string, "revoked" | "replaced">> {
    const hashes = links.map(({ secretHash }) => Buffer.from(secretHash).toString("hex"));
    const rows = await this.#client.$queryRaw<{ linkId: string; isRevoked: boolean }[]>`
      SELECT h.link_id AS "linkId", c.secret_hash IS NULL AS "isRevoked"
      FROM unnest(${ids(links)}::text[], ${hashes}::text[]) AS h (link_id, hash)
        LEFT JOIN broker_credential c ON c.secret_hash = decode(h.hash, 'hex')
        LEFT JOIN broker_link l ON l.cluster_id = c.cluster_id AND l.broker_id = c.broker_id
      WHERE c.secret_hash IS NULL OR l.link_id IS DISTINCT FROM h.link_id`;
    return new Map(
      rows.map(({ linkId, isRevoked }) => [linkId, isRevoked ? "revoked" : "replaced"]),
    );
  }

  /** Undefined where the slot never had a link. */
  async holderOf({ clusterId, brokerId }: BrokerSlot): Promise<LinkHolder | undefined> {
    const [row] = await this.#client.$queryRaw<HolderRow[]>`
      SELECT g.id, g.internal_url AS "internalUrl", l.last_heard_at AS "lastHeardAt"
      FROM broker_link l LEFT JOIN gateway g ON g.id = l.gateway_id AND l.disconnected_at IS NULL
        AND g.last_seen_at > now() - ${GATEWAY_SILENT_MS_MAX}::int * interval '1 millisecond'
      WHERE l.cluster_id = ${clusterId} AND l.broker_id = ${brokerId}::int`;
    if (!row) return undefined;
    const { id, internalUrl, lastHeardAt } = row;
    return { gateway: id && internalUrl ? { id, internalUrl } : undefined, lastHeardAt };
  }
}

interface HolderRow {
  readonly id: string | null;
  readonly internalUrl: string | null;
  readonly lastHeardAt: Date;
}

function ids(links: readonly { readonly linkId: string }[]): string[] {
  return links.map(({ linkId }) => linkId);
}

function silences(links: readonly { readonly silentMs: number }[]): number[] {
  return links.map(({ silentMs }) => silentMs);
}
