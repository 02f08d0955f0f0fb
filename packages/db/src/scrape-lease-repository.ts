import type { ClusterId } from "@millrace/domain";
import type { Client } from "./client.ts";

export interface ScrapeLeaseRequest {
  readonly workerId: string;
  /** Clusters whose metrics are to be read. */
  readonly clusterIds: readonly ClusterId[];
  readonly leaseMs: number;
  /** Clusters that one worker holds at most. */
  readonly clustersMax: number;
}

export interface ScrapeLease {
  readonly clusterId: ClusterId;
  /** Whether somebody looks at the cluster now. */
  readonly watched: boolean;
}

/** How long a look at a cluster counts. */
const WATCH_SECONDS = 30;

/** Which worker reads which cluster's metrics. All times are the database's. */
export class ScrapeLeaseRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * Renews the worker's leases, takes those that nobody holds, and returns all it has now. Each
   * cluster is held by at most one worker; those of a dead worker are free when its leases end.
   */
  async claim(request: ScrapeLeaseRequest): Promise<ScrapeLease[]> {
    const { workerId, leaseMs, clustersMax } = request;
    const clusterIds = [...request.clusterIds];
    // Renewed once a third has passed, so that not every round writes every row.
    await this.#client.$executeRaw`
      UPDATE scrape_lease SET lease_until = now() + ${leaseMs}::int * interval '1 ms'
      WHERE worker_id = ${workerId} AND cluster_id = ANY(${clusterIds}::text[])
        AND lease_until > now() AND lease_until < now() + ${leaseMs}::int * interval '1 ms' * 2 / 3`;
    // In one order, so that two workers never wait for each other.
    await this.#client.$executeRaw`
      INSERT INTO scrape_lease AS held (cluster_id, worker_id, lease_until)
      SELECT id, ${workerId}, now() + ${leaseMs}::int * interval '1 ms'
      FROM unnest(${clusterIds}::text[]) AS id
      WHERE NOT EXISTS (SELECT FROM scrape_lease WHERE cluster_id = id AND lease_until > now())
      ORDER BY id
      LIMIT greatest(0, ${clustersMax}::int - (
        SELECT count(*) FROM scrape_lease WHERE worker_id = ${workerId} AND lease_until > now()))
      ON CONFLICT (cluster_id) DO UPDATE
        SET worker_id = excluded.worker_id, lease_until = excluded.lease_until
        WHERE held.lease_until <= now()`;
    const rows = await this.#client.$queryRaw<{ cluster_id: ClusterId; watched: boolean }[]>`
      SELECT cluster_id, coalesce(watched_until > now(), false) AS watched FROM scrape_lease
      WHERE worker_id = ${workerId} AND lease_until > now() AND cluster_id = ANY(${clusterIds}::text[])`;
    return rows.map((row) => ({ clusterId: row.cluster_id, watched: row.watched }));
  }

  /** Hands the worker's clusters back, for another one to take at once. */
  async release(workerId: string): Promise<void> {
    await this.#client.$executeRaw`
      UPDATE scrape_lease SET lease_until = now() WHERE worker_id = ${workerId} AND lease_until > now()`;
  }

  /** Who reads the cluster now; undefined where nobody does. */
  async holder(clusterId: ClusterId): Promise<string | undefined> {
    const [row] = await this.#client.$queryRaw<{ worker_id: string }[]>`
      SELECT worker_id FROM scrape_lease WHERE cluster_id = ${clusterId} AND lease_until > now()`;
    return row?.worker_id;
  }

  /** Somebody looks at the cluster: it is read more often for a while. Writes at most every fifteen seconds. */
  async watch(clusterId: ClusterId): Promise<void> {
    await this.#client.$executeRaw`
      UPDATE scrape_lease SET watched_until = now() + ${WATCH_SECONDS}::int * interval '1 s'
      WHERE cluster_id = ${clusterId}
        AND coalesce(watched_until, '-infinity') < now() + ${WATCH_SECONDS}::int * interval '1 s' / 2`;
  }
}
