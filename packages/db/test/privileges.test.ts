import { expect, test } from "vitest";
import { databaseFixture } from "./fixture.ts";
import { withClient } from "./tenant-rows.ts";

/** What each role may do, by table: S(elect), I(nsert), U(pdate), D(elete). What is not here is not granted. */
const GRANTED: Record<string, Record<string, string>> = {
  millrace_api: {
    "pgboss.job": "SI",
    "pgboss.job_common": "SI",
    "pgboss.queue": "S",
    "pgboss.version": "S",
    "public.access_review": "SI",
    "public.account": "SIUD",
    "public.api_key": "SIU",
    "public.audit_event": "SI",
    "public.benchmark": "SID",
    "public.benchmark_sample": "S",
    "public.broker_link": "S",
    "public.cluster": "SIU",
    "public.custom_role": "SIUD",
    "public.environment": "SIU",
    "public.gateway": "S",
    "public.idempotency_key": "SIUD",
    "public.invitation": "SIU",
    "public.member": "SIUD",
    "public.metric_chunk": "S",
    "public.metric_reading": "S",
    "public.operation": "SIU",
    "public.operation_event": "SI",
    "public.operation_plan": "S",
    "public.operation_step": "SIU",
    "public.organization": "SIU",
    "public.outgoing_mail": "SIUD",
    "public.rate_limit": "SIUD",
    "public.scrape_lease": "S",
    "public.service_account": "SIU",
    "public.session": "SIUD",
    "public.sso_connection": "SIUD",
    "public.sso_domain": "SID",
    "public.tuning_change": "SI",
    "public.two_factor": "SIUD",
    "public.user": "SIUD",
    "public.verification": "SIUD",
  },
  millrace_worker: {
    "pgboss.*": "SIUD",
    "public.audit_check": "SI",
    "public.audit_event": "S",
    "public.benchmark": "SUD",
    "public.benchmark_sample": "SID",
    "public.broker_credential": "SID",
    "public.broker_link": "S",
    "public.cluster": "SU",
    "public.gateway": "S",
    "public.metric_chunk": "SIU",
    "public.metric_reading": "SID",
    "public.operation": "SIU",
    "public.operation_event": "SI",
    "public.operation_plan": "SIU",
    "public.operation_step": "SIU",
    "public.organization": "S",
    "public.terraform_state": "SIUD",
    "public.tuning_change": "S",
  },
  millrace_gateway: {
    "public.broker_credential": "S",
    "public.broker_link": "SIU",
    "public.gateway": "SIUD",
  },
  millrace_fleet: {
    "public.benchmark": "S",
    "public.cluster": "S",
    "public.idempotency_key": "D",
    "public.operation": "SD",
    "public.operation_step": "S",
    "public.scrape_lease": "SIU",
  },
};
/** Single columns, beside whole tables. */
const COLUMNS = [
  "millrace_api UPDATE scrape_lease.watched_until",
  "millrace_fleet SELECT audit_check.checked_at",
  "millrace_fleet SELECT audit_check.organization_id",
  "millrace_fleet SELECT idempotency_key.expires_at",
  "millrace_fleet SELECT organization.id",
  "millrace_fleet SELECT terraform_state.cluster_id",
  "millrace_fleet SELECT terraform_state.version",
];
const FUNCTIONS = [
  "active_impersonation: millrace_api",
  "begin_impersonation: millrace_api",
  "drop_metric_partitions: millrace_fleet",
  "end_impersonation: millrace_api",
  "find_api_key: millrace_api",
  "find_invitation: millrace_api",
  "find_organization: millrace_api",
  "find_sso: millrace_api",
  "memberships_of: millrace_api",
  "operations_under_way: millrace_api, millrace_fleet, millrace_worker",
  "platform_operator_of: millrace_api",
  "platform_organizations: millrace_api",
  "prepare_metric_partitions: millrace_fleet",
  "sso_organizations: millrace_api",
  "taken_placements: millrace_api, millrace_fleet, millrace_worker",
];

const fixture = databaseFixture();

async function rows(sql: string): Promise<Record<string, string>[]> {
  return withClient(fixture.url, async (client) => (await client.query(sql)).rows);
}

test("each role has the written privileges, and no others", async () => {
  const found: Record<string, Record<string, string>> = {};
  const granted = await rows(
    `SELECT a.grantee::regrole::text AS role, n.nspname || '.' || c.relname AS name,
       string_agg(left(a.privilege_type, 1), '' ORDER BY
         array_position(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], a.privilege_type)) AS rights
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) a
     WHERE n.nspname IN ('public', 'pgboss') AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
       AND a.grantee <> c.relowner
     GROUP BY 1, 2 ORDER BY 1, 2`,
  );
  for (const { role = "", name = "", rights = "" } of granted) {
    const isWorkersQueue = role === "millrace_worker" && name.startsWith("pgboss.");
    found[role] = { ...found[role], [isWorkersQueue ? "pgboss.*" : name]: rights };
  }
  expect(found).toEqual(GRANTED);
  const columns = await rows(
    `SELECT DISTINCT a.grantee::regrole || ' ' || a.privilege_type || ' ' || c.relname || '.' || t.attname AS line
     FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid, aclexplode(t.attacl) a
     WHERE c.relnamespace IN ('public'::regnamespace, 'pgboss'::regnamespace) ORDER BY 1`,
  );
  expect(columns.map(({ line }) => line)).toEqual(COLUMNS);
});

test("nobody has rights to a partition, and row-level security is forced on each", async () => {
  const partitions = await rows(
    `SELECT c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS forced,
       EXISTS (SELECT 1 FROM aclexplode(c.relacl) a WHERE a.grantee <> c.relowner) AS granted
     FROM pg_class c WHERE c.relispartition AND c.relkind = 'r'
       AND c.relnamespace = 'public'::regnamespace`,
  );
  expect(partitions.length).toBeGreaterThan(30);
  for (const partition of partitions) {
    expect(partition, partition.name).toMatchObject({ forced: true, granted: false });
  }
});

test("functions with the owner's rights are those that are written down, and not for everybody", async () => {
  const found = await rows(
    `SELECT p.proname || ': ' || string_agg(a.grantee::regrole::text, ', ' ORDER BY a.grantee::regrole::text)
       AS line
     FROM pg_proc p, aclexplode(p.proacl) a
     WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef AND a.grantee <> p.proowner
     GROUP BY p.oid, p.proname ORDER BY 1`,
  );
  expect(found.map(({ line }) => line)).toEqual(FUNCTIONS);
  const settings = await rows(
    `SELECT DISTINCT array_to_string(proconfig, '; ') AS settings FROM pg_proc
     WHERE pronamespace = 'public'::regnamespace AND prosecdef`,
  );
  expect(settings).toEqual([{ settings: "search_path=pg_catalog, public" }]);
});

test("the roles have no attribute and no membership beyond the written ones", async () => {
  const roles = await rows(
    `SELECT rolname AS name, rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolinherit
         OR rolreplication AS special
     FROM pg_roles WHERE rolname = ANY(ARRAY['millrace_api', 'millrace_worker', 'millrace_gateway', 'millrace_fleet'])`,
  );
  expect(roles).toHaveLength(4);
  for (const role of roles) expect(role).toMatchObject({ special: false });
  const memberships = await rows(
    `SELECT member::regrole || ' in ' || roleid::regrole AS line FROM pg_auth_members
     WHERE member::regrole::text = ANY(ARRAY['millrace_api', 'millrace_worker', 'millrace_gateway', 'millrace_fleet'])`,
  );
  expect(memberships).toEqual([{ line: "millrace_worker in millrace_fleet" }]);
});
