/** Migrations that have to understand what was under way, or had failed, when they came. */
import { stepsOf } from "@millrace/domain";
import type pg from "pg";
import { expect, test } from "vitest";
import { databaseFixture } from "./fixture.ts";
import { migrationsBefore, sqlOf, stepsIn, withEmptyDatabase } from "./migrations.ts";

const fixture = databaseFixture();
const TENANT = `
  INSERT INTO organization (id, name, slug) VALUES ('org_1', 'Tenant', 'tenant');
  INSERT INTO environment (id, organization_id, name) VALUES ('env_1', 'org_1', 'default');`;

async function cluster(client: pg.Client, id: string, phase: string): Promise<void> {
  await client.query(
    `INSERT INTO cluster (id, organization_id, environment_id, name, region, size, phase, updated_at)
       VALUES ($1, 'org_1', 'env_1', $1, 'eu-central-1', 'dev', $2, now())`,
    [id, phase],
  );
}

/** A failed operation whose steps are these; those before `begun` were begun. */
async function failed(
  client: pg.Client,
  of: { cluster: string; kind: string; parameters?: object; steps: string[]; begun: number },
): Promise<string> {
  const { rows } = await client.query("SELECT 'op_' || count(*) AS id FROM operation");
  const id = rows[0].id as string;
  await client.query(
    `INSERT INTO operation (id, organization_id, cluster_id, kind, phase, done, provider, parameters, updated_at)
       VALUES ($1, 'org_1', $2, $3, 'FAILED', true, 'aws', $4, now())`,
    [id, of.cluster, of.kind, JSON.stringify(of.parameters ?? {})],
  );
  for (const [position, name] of of.steps.entries()) {
    const begun = position < of.begun;
    await client.query(
      "INSERT INTO operation_step (operation_id, position, name, state, attempt) VALUES ($1, $2, $3, $4, $5)",
      [id, position, name, begun ? "SUCCEEDED" : "PENDING", begun ? 1 : 0],
    );
  }
  return id;
}

test("what a purge has begun to destroy is not whole after the migration either", async () => {
  const name = "20261122012500_data_destroyed";
  await withEmptyDatabase(fixture.url, async (client) => {
    for (const before of await migrationsBefore(name)) await client.query(await sqlOf(before));
    await client.query(TENANT);
    const steps = stepsOf("cluster.purge", "aws").map((step) => step.name as string);
    const through = steps.length;
    const purge = { kind: "cluster.purge", steps };
    const deletion = { kind: "cluster.delete", steps, begun: through };
    await cluster(client, "twice", "FAILED");
    await failed(client, { ...purge, cluster: "twice", begun: through });
    await failed(client, { ...purge, cluster: "twice", begun: 1 });
    await cluster(client, "unbegun", "FAILED");
    await failed(client, { ...purge, cluster: "unbegun", begun: steps.indexOf("apply") });
    await cluster(client, "kept", "FAILED");
    await failed(client, { ...deletion, cluster: "kept", parameters: { retainDays: 7 } });
    await cluster(client, "at-once", "DELETING");
    await failed(client, { ...deletion, cluster: "at-once", parameters: { retainDays: 0 } });
    await cluster(client, "serves", "RUNNING");
    await failed(client, { ...deletion, cluster: "serves" });
    await client.query(await sqlOf(name));
    const { rows } = await client.query(
      "SELECT id FROM cluster WHERE data_destroyed_at IS NOT NULL ORDER BY id",
    );
    expect(rows.map(({ id }) => id)).toEqual(["at-once", "twice"]);
  });
});

test("a reconciliation that failed before it had to look again goes on and looks", async () => {
  const name = "20261122013000_reconcile_compares";
  await withEmptyDatabase(fixture.url, async (client) => {
    for (const before of await migrationsBefore(name)) await client.query(await sqlOf(before));
    await client.query(TENANT);
    await cluster(client, "one", "DEGRADED");
    const now = stepsOf("cluster.reconcile", "aws").map((step) => step.name as string);
    const steps = now.filter((step) => step !== "detect_drift");
    const open = await failed(client, {
      ...{ cluster: "one", kind: "cluster.reconcile", steps, begun: 3 },
    });
    const done = await failed(client, {
      ...{ cluster: "one", kind: "cluster.reconcile", steps, begun: steps.length },
    });
    await client.query("UPDATE operation SET phase = 'SUCCEEDED' WHERE id = $1", [done]);
    await client.query(await sqlOf(name));
    expect((await stepsIn(client, open)).map(([step]) => step)).toEqual(now);
    expect((await stepsIn(client, done)).map(([step]) => step)).toEqual(steps);
  });
});

test("clusters that are there get a port with TLS; creations under way get the step that creates a user", async () => {
  const port = "20261123064500_tls_listeners";
  const step = "20261123070000_initial_user";
  await withEmptyDatabase(fixture.url, async (client) => {
    for (const before of await migrationsBefore(port)) await client.query(await sqlOf(before));
    await client.query(TENANT);
    const placed = (id: string, region: string, host: string | null, kafkaPort: number | null) =>
      client.query(
        `INSERT INTO cluster (id, organization_id, environment_id, name, region, size, phase, host,
           kafka_port, admin_port, updated_at)
         VALUES ($1, 'org_1', 'env_1', $1, $2, 'dev', 'RUNNING', $3, $4, $4::integer + 500, now())`,
        [id, region, host, kafkaPort],
      );
    await placed("clu_here", "local", "127.0.0.1", 19_100);
    await placed("clu_gone", "local", null, null);
    await placed("clu_there", "eu-central-1", "nlb.example.org", 9092);
    const names = stepsOf("cluster.create", "local").map((each) => each.name as string);
    const before = names.filter((name) => name !== "create_user");
    for (const [id, phase] of [
      ["op_done", "SUCCEEDED"],
      ["op_open", "RUNNING"],
    ]) {
      await client.query(
        `INSERT INTO operation (id, organization_id, cluster_id, kind, phase, done, updated_at)
           VALUES ($1, 'org_1', 'clu_here', 'cluster.create', $2, $2 = 'SUCCEEDED', now())`,
        [id, phase],
      );
      for (const [position, name] of before.entries()) {
        await client.query(
          "INSERT INTO operation_step (operation_id, position, name, state) VALUES ($1, $2, $3, 'SUCCEEDED')",
          [id, position, name],
        );
      }
    }
    await client.query(await sqlOf(port));
    await client.query(await sqlOf(step));
    const { rows } = await client.query("SELECT id, tls_port FROM cluster ORDER BY id");
    expect(rows).toEqual([
      { id: "clu_gone", tls_port: null },
      { id: "clu_here", tls_port: 20_100 },
      { id: "clu_there", tls_port: null },
    ]);
    expect((await stepsIn(client, "op_done")).map(([name]) => name)).toEqual(before);
    const open = await stepsIn(client, "op_open");
    expect(open.map(([name]) => name)).toEqual(names);
    expect(open.filter(([, state]) => state === "PENDING")).toEqual([["create_user", "PENDING"]]);
  });
});

test("a member with a custom role is no owner, whoever writes, and role names differ by more than case", async () => {
  const name = "20261123152000_custom_role_checks";
  await withEmptyDatabase(fixture.url, async (client) => {
    for (const before of await migrationsBefore(name)) await client.query(await sqlOf(before));
    await client.query(TENANT);
    await client.query(`
      INSERT INTO "user" (id, name, email, email_verified, updated_at)
        VALUES ('usr_1', 'Ada', 'ada@example.com', true, now());
      INSERT INTO custom_role (id, organization_id, name, description, permissions, created_at)
        VALUES ('rol_1', 'org_1', 'Auditor', '', '{}', '2026-11-23T10:00:00Z'),
               ('rol_2', 'org_1', 'auditor', '', '{}', '2026-11-23T11:00:00Z'),
               ('rol_3', 'org_1', 'OWNER', '', '{}', '2026-11-23T12:00:00Z');
      INSERT INTO member (id, organization_id, user_id, role, custom_role_id)
        VALUES ('mem_1', 'org_1', 'usr_1', 'owner', 'rol_1');`);
    await client.query(await sqlOf(name));
    const names = await client.query("SELECT name FROM custom_role ORDER BY id");
    expect(names.rows.map((row) => row.name)).toEqual([
      ...["Auditor", "auditor rol_2", "OWNER rol_3"],
    ]);
    expect((await client.query("SELECT role FROM member")).rows).toEqual([{ role: "viewer" }]);
    const toOwner = client.query("UPDATE member SET role = 'owner'");
    await expect(toOwner).rejects.toThrow("member_custom_role_least");
    const another = `INSERT INTO custom_role (id, organization_id, name, description, permissions)
      VALUES ('rol_4', 'org_1', 'AUDITOR', '', '{}')`;
    await expect(client.query(another)).rejects.toThrow("custom_role_name_taken");
    await client.query("UPDATE member SET custom_role_id = NULL, role = 'owner'");
  });
});

test("a member was here last when a session that is good for the organization was", async () => {
  const name = "20261123154000_access_review";
  await withEmptyDatabase(fixture.url, async (client) => {
    for (const before of await migrationsBefore(name)) await client.query(await sqlOf(before));
    await client.query(TENANT);
    await client.query(`
      INSERT INTO organization (id, name, slug) VALUES ('org_2', 'Other', 'other');
      INSERT INTO "user" (id, name, email, email_verified, updated_at)
        SELECT id, id, id || '@example.com', true, now()
          FROM unnest(ARRAY['usr_both', 'usr_sso', 'usr_none']) id;
      INSERT INTO member (id, organization_id, user_id, role) VALUES
        ('mem_1', 'org_1', 'usr_both', 'viewer'), ('mem_2', 'org_2', 'usr_both', 'viewer'),
        ('mem_3', 'org_1', 'usr_sso', 'viewer'), ('mem_4', 'org_2', 'usr_sso', 'viewer'),
        ('mem_5', 'org_1', 'usr_none', 'viewer');
      INSERT INTO session (id, token, expires_at, user_id, sso_organization_id, updated_at) VALUES
        ('ses_1', 't1', now(), 'usr_both', NULL, '2026-11-01T00:00:00Z'),
        ('ses_2', 't2', now(), 'usr_both', NULL, '2026-11-02T00:00:00Z'),
        ('ses_3', 't3', now(), 'usr_both', 'org_2', '2026-11-03T00:00:00Z'),
        ('ses_4', 't4', now(), 'usr_sso', 'org_1', '2026-11-04T00:00:00Z');`);
    await client.query(await sqlOf(name));
    const { rows } = await client.query("SELECT id, last_used_at FROM member ORDER BY id");
    expect(rows.map((row) => [row.id, row.last_used_at?.toISOString().slice(0, 10)])).toEqual([
      ["mem_1", "2026-11-02"],
      ["mem_2", "2026-11-03"],
      ["mem_3", "2026-11-04"],
      ["mem_4", undefined],
      ["mem_5", undefined],
    ]);
  });
});

test("an access review from before digests, or of an older API beside it, is not said to be complete", async () => {
  const name = "20261123155000_access_review_digest";
  await withEmptyDatabase(fixture.url, async (client) => {
    for (const before of await migrationsBefore(name)) await client.query(await sqlOf(before));
    await client.query(TENANT);
    const record = (id: string) =>
      client.query(
        "INSERT INTO access_review (id, organization_id, reviewed_by, counts) VALUES ($1, 'org_1', '{}', '{}')",
        [id],
      );
    await record("rev_1");
    await client.query(await sqlOf(name));
    await record("rev_2");
    const { rows } = await client.query("SELECT digest, complete FROM access_review ORDER BY id");
    expect(rows).toEqual([
      { digest: null, complete: false },
      { digest: null, complete: false },
    ]);
  });
});
