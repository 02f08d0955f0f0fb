/** Organizations, clusters and a day of readings, as the product would have stored them. */
import { createHash, randomBytes } from "node:crypto";
import type { Database, MetricReadings } from "@millrace/db";
import { type ClusterId, newId, type OrganizationId, resolutionAt } from "@millrace/domain";
import type pg from "pg";
import { SimulatedCluster } from "./simulated-cluster.ts";

export const DAY_MS = 86_400_000;
const INTERVAL_MS = 10_000;
/** Readings of one transaction while the history is filled. */
const HISTORY_BATCH = 60;

export interface FleetSize {
  readonly organizations: number;
  readonly clusters: number;
  readonly topics: number;
}

export interface Target {
  readonly id: ClusterId;
  readonly organizationId: OrganizationId;
  /** Of an API key of the organization. */
  readonly apiKey: string;
}

/** One broker per cluster, on which nothing runs. */
export async function addClusters(
  db: Database,
  owner: pg.Client,
  size: FleetSize,
): Promise<Target[]> {
  const organizations = await addOrganizations(db, size.organizations);
  const targets: Target[] = [];
  for (let index = 0; index < size.clusters; index += 1) {
    const { environmentId, ...of } = organizations[index % organizations.length]!;
    const id = newId("clu");
    targets.push({ id, ...of });
    await owner.query(
      `INSERT INTO cluster (id, organization_id, environment_id, name, region, size, phase, observed_revision, host, kafka_port, updated_at)
       VALUES ($1, $2, $3, $4, 'local', 'dev', 'RUNNING', 1, '127.0.0.1', $5, now())`,
      [id, of.organizationId, environmentId, `bench-${index}`, 10_000 + index],
    );
  }
  return targets;
}

async function addOrganizations(db: Database, count: number) {
  const organizations: (Omit<Target, "id"> & { environmentId: string })[] = [];
  for (let index = 0; index < count; index += 1) {
    const organizationId = newId("org");
    const tenant = db.tenant(organizationId);
    await tenant.organizations.create({
      ...{ id: organizationId, name: "Bench", slug: `bench-${index}` },
    });
    const environment = await tenant.organizations.ensureEnvironment(organizationId, "default");
    const apiKey = `mrk_${randomBytes(32).toString("base64url")}`;
    await tenant.apiKeys.create({
      ...{ organizationId, name: "bench", role: "viewer", hint: "mrk_…" },
      secretHash: new Uint8Array(createHash("sha256").update(apiKey).digest()),
    });
    organizations.push({ organizationId, apiKey, environmentId: environment.id });
  }
  return organizations;
}

/** A day of one cluster as the worker stores it, and copies of its rows for the others. */
export async function fillHistory(
  db: Database,
  owner: pg.Client,
  { targets, topics }: { targets: readonly Target[]; topics: number },
): Promise<void> {
  const [first] = targets;
  if (first === undefined) return;
  const simulated = new SimulatedCluster(first.id, 1, topics);
  const { metrics } = db.tenant(first.organizationId);
  const end = Math.floor(Date.now() / INTERVAL_MS) * INTERVAL_MS;
  let batch: MetricReadings[] = [];
  for (let atMs = end - DAY_MS; atMs < end; atMs += INTERVAL_MS) {
    const at = new Date(atMs);
    batch.push(simulated.read(at, resolutionAt(new Date(atMs - INTERVAL_MS), at)));
    if (batch.length < HISTORY_BATCH) continue;
    await metrics.add(batch);
    batch = [];
  }
  await metrics.add(batch);
  while (await metrics.compact(first.id, new Date())) {}
  await copyToOthers(owner, targets);
}

async function copyToOthers(owner: pg.Client, [first, ...others]: readonly Target[]) {
  for (const [table, columns] of [
    ["metric_chunk", "kind, source, resolution, at, data"],
    ["metric_reading", "kind, broker_id, resolution, at, data"],
  ]) {
    await owner.query(
      `INSERT INTO ${table} SELECT other, ${columns} FROM ${table}, unnest($2::text[]) AS other WHERE cluster_id = $1`,
      [first?.id, others.map(({ id }) => id)],
    );
    await owner.query(`VACUUM ANALYZE ${table}`);
  }
}

/** What the readings of a table take at each resolution, with their indexes. */
export async function sizesOf(owner: pg.Client, table: "metric_chunk" | "metric_reading") {
  const { rows } = await owner.query<{ resolution: number; rows: number; bytes: number }>(
    `SELECT substring(c.relname FROM '_(\\d+)_\\d+$')::int AS resolution, sum(c.reltuples)::float8 AS rows,
       sum(pg_total_relation_size(c.oid))::float8 AS bytes
     FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = $1::regclass AND c.reltuples > 0 GROUP BY 1 ORDER BY 1`,
    [table],
  );
  return rows;
}
