/** Row-level security as the catalogue and the tables themselves tell it. */
import { newId } from "@millrace/domain";
import pg from "pg";

/** Tables that belong to no organization. Any other table has to be protected. */
export const WITHOUT_TENANT = [
  "_prisma_migrations",
  "account",
  "gateway",
  "platform_operator",
  "rate_limit",
  "session",
  "two_factor",
  "user",
  "verification",
];

export async function withClient<T>(
  url: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

export async function tenantTables(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query(
    `SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
       AND relnamespace = 'public'::regnamespace
     ORDER BY relname`,
  );
  return rows.map(({ relname }) => relname).filter((name) => !WITHOUT_TENANT.includes(name));
}

/** Tables that lack one of: row-level security, its force over the owner, the tenant's policy. */
export async function unprotected(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query(
    `SELECT relname FROM pg_class c WHERE relname = ANY($1) AND relnamespace = 'public'::regnamespace
       AND NOT (relrowsecurity AND relforcerowsecurity AND EXISTS (
         SELECT 1 FROM pg_policy WHERE polrelid = c.oid AND polname = 'tenant' AND polcmd = '*'
           AND polqual IS NOT NULL AND polwithcheck IS NOT NULL))
     ORDER BY relname`,
    [await tenantTables(client)],
  );
  return rows.map(({ relname }) => relname);
}

/** Tables of which this connection sees a row in a transaction for that tenant, or for none. */
export async function visible(client: pg.Client, tenant?: string): Promise<string[]> {
  const found: string[] = [];
  await client.query("BEGIN");
  if (tenant) await client.query("SELECT set_config('app.organization_id', $1, true)", [tenant]);
  for (const table of await tenantTables(client)) {
    const { rows } = await client.query("SELECT has_table_privilege($1, 'SELECT') AS allowed", [
      `public.${table}`,
    ]);
    if (!rows[0]?.allowed) continue;
    const { rowCount } = await client.query(`SELECT 1 FROM public."${table}" LIMIT 1`);
    if (rowCount) found.push(table);
  }
  await client.query("ROLLBACK");
  return found;
}

/** Tables that the connection's role may read at all. */
export async function readable(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query(
    "SELECT name FROM unnest($1::text[]) AS name WHERE has_table_privilege('public.' || name, 'SELECT')",
    [await tenantTables(client)],
  );
  return rows.map(({ name }) => name).sort();
}

/** A row in every table of one tenant, written by the owner of the tables. Its organization's id. */
export async function fillTenant(client: pg.Client): Promise<string> {
  const [org, user, env, clu, op, bmk, inv] = (
    ["org", "usr", "env", "clu", "op", "bmk", "inv"] as const
  ).map((prefix) => newId(prefix));
  const rows: Record<string, Record<string, unknown>> = {
    organization: { id: org, name: "T", slug: org },
    user: { id: user, name: "U", email: `${user}@example.com`, email_verified: true },
    member: { id: newId("mem"), organization_id: org, user_id: user, role: "owner" },
    invitation: {
      ...{ id: inv, organization_id: org, email: "i@example.com", role: "viewer" },
      ...{ token_hash: Buffer.from(org ?? ""), invited_by: {} },
    },
    outgoing_mail: {
      ...{ id: newId("mai"), organization_id: org, invitation_id: inv, recipient: "i@example.com" },
      ...{ subject: "s", sealed_text: Buffer.of(1) },
    },
    impersonation: {
      ...{ id: newId("imp"), organization_id: org, session_id: `ses_${org}`, operator_id: user },
      ...{ user_id: user, reason: "r", may_write: false, expires_at: new Date() },
    },
    api_key: {
      ...{ id: newId("key"), organization_id: org, name: "k", role: "viewer", hint: "h" },
      secret_hash: Buffer.from(org ?? ""),
    },
    access_review: {
      ...{ id: newId("rev"), organization_id: org, reviewed_by: {}, counts: {} },
    },
    custom_role: {
      ...{ id: newId("rol"), organization_id: org, name: "r", description: "", permissions: [] },
    },
    service_account: {
      ...{ id: newId("svc"), organization_id: org, name: "s", description: "", role: "viewer" },
    },
    sso_connection: {
      ...{ id: newId("sso"), organization_id: org, issuer: "https://i", client_id: "c" },
      ...{ client_secret: Buffer.of(1), default_role: "viewer" },
    },
    sso_domain: { domain: `${org}.example`, organization_id: org },
    environment: { id: env, organization_id: org, name: "default" },
    cluster: {
      ...{ id: clu, organization_id: org, environment_id: env, name: "c", region: "local" },
      ...{ size: "dev", phase: "RUNNING" },
    },
    operation: {
      id: op,
      organization_id: org,
      cluster_id: clu,
      kind: "cluster.create",
      phase: "PENDING",
    },
    operation_step: { operation_id: op, position: 0, name: "plan", state: "PENDING" },
    operation_event: { operation_id: op, seq: 1, kind: "operation.created", message: "accepted" },
    operation_plan: { operation_id: op, plan_id: "p", digest: "d", plan: {} },
    tuning_change: {
      ...{
        id: newId("tch"),
        cluster_id: clu,
        version: 1,
        principal_kind: "user",
        principal_id: user,
      },
      ...{ principal_name: "U", changes: "[]" },
    },
    benchmark: {
      ...{ id: bmk, cluster_id: clu, operation_id: op, workload: "produce", duration_seconds: 10 },
      ...{ record_size_bytes: 1, bytes_per_second: 1, partitions: 1, size: "dev" },
      ...{ principal_kind: "user", principal_id: user, principal_name: "U", tuning: {} },
      ...{ tuning_version: 0, tuning_changes: "[]" },
    },
    benchmark_sample: { benchmark_id: bmk, seq: 0, sample: {} },
    terraform_state: {
      ...{ cluster_id: clu, version: 1, serial: 1, lineage: "l", ciphertext: Buffer.of(1) },
      ...{ wrapped_key: Buffer.of(1), key_id: "k" },
    },
    idempotency_key: {
      ...{ organization_id: org, principal: "p", key: "k", route: "r", request_hash: Buffer.of(1) },
      ...{ locked_until: new Date(), expires_at: new Date(Date.now() + 60_000) },
    },
    audit_event: {
      ...{
        id: newId("aud"),
        organization_id: org,
        actor_kind: "user",
        actor_id: user,
        actor_name: "U",
      },
      ...{
        auth_method: "session",
        client_address: "::1",
        request_id: "req_1",
        method: "cluster.create",
      },
      ...{ result: "success", seq: 0, created_at: new Date() },
      ...{ previous_hash: Buffer.of(), hash: Buffer.of() },
    },
    audit_check: {
      ...{ organization_id: org, checked_at: new Date(), seq: 0, hash: Buffer.of() },
    },
    broker_credential: { secret_hash: Buffer.from(org ?? ""), cluster_id: clu, broker_id: 0 },
    broker_link: {
      ...{ cluster_id: clu, broker_id: 0, link_id: "l", gateway_id: "g", connected_at: new Date() },
      ...{
        last_heard_at: new Date(),
        remote_address: "::1",
        broker_version: "0",
        broker_start: "s",
      },
    },
    metric_reading: {
      ...{ cluster_id: clu, kind: "broker", broker_id: 0, resolution: 10, at: new Date() },
      data: Buffer.of(1),
    },
    metric_chunk: {
      ...{ cluster_id: clu, kind: "broker", source: "0", resolution: 10, at: new Date() },
      data: Buffer.of(1),
    },
    scrape_lease: { cluster_id: clu, worker_id: "w", lease_until: new Date() },
  };
  for (const [table, row] of Object.entries(rows)) await insert(client, table, row);
  return org ?? "";
}

/** Columns that Prisma, and not the database, gives a value. */
const NOW_COLUMNS = ["updated_at", "expires_at"];

async function insert(
  client: pg.Client,
  table: string,
  row: Record<string, unknown>,
): Promise<void> {
  const { rows } = await client.query(
    `SELECT column_name AS name FROM information_schema.columns WHERE table_schema = 'public'
       AND table_name = $1 AND is_nullable = 'NO' AND column_default IS NULL AND column_name = ANY($2)`,
    [table, NOW_COLUMNS],
  );
  const missing = rows.filter(({ name }) => !(name in row)).map(({ name }) => [name, new Date()]);
  const full = { ...row, ...Object.fromEntries(missing) };
  const columns = Object.keys(full);
  const places = columns.map((_, index) => `$${index + 1}`);
  await client.query(
    `INSERT INTO public."${table}" (${columns.join(", ")}) VALUES (${places.join(", ")})`,
    Object.values(full),
  );
}
