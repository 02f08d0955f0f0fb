import { stepsOf } from "@millrace/domain";
import { expect, test } from "vitest";
import { databaseFixture } from "./fixture.ts";
import { sqlOf, stepsIn, withEmptyDatabase } from "./migrations.ts";

const fixture = databaseFixture();
const BEFORE = [
  "20261121114339_first_tables",
  "20261121181500_tuning",
  "20261121181600_catch_up_metrics",
];
const THIS = "20261121213500_aws_clusters";
const STEPS_BEFORE = [
  "reserve_ports",
  "prepare_broker",
  "start_broker",
  "wait_until_healthy",
  "smoke_check",
  "publish_endpoint",
];

test("clusters and operations of the version before go on as they were", async () => {
  await withEmptyDatabase(fixture.url, async (client) => {
    for (const name of BEFORE) await client.query(await sqlOf(name));
    await client.query(`
      INSERT INTO organization (id, name, slug) VALUES ('org_1', 'Tenant', 'tenant');
      INSERT INTO environment (id, organization_id, name) VALUES ('env_1', 'org_1', 'default');
      INSERT INTO cluster (id, organization_id, environment_id, name, region, size, phase, updated_at)
        VALUES ('clu_1', 'org_1', 'env_1', 'orders', 'local', 'dev', 'PROVISIONING', now()),
               ('clu_2', 'org_1', 'env_1', 'lines', 'local', 'dev', 'RUNNING', now());
      INSERT INTO operation (id, organization_id, cluster_id, kind, phase, done, updated_at)
        VALUES ('op_1', 'org_1', 'clu_1', 'cluster.create', 'RUNNING', false, now()),
               ('op_2', 'org_1', 'clu_2', 'cluster.create', 'SUCCEEDED', true, now());`);
    for (const operation of ["op_1", "op_2"]) {
      for (const [position, name] of STEPS_BEFORE.entries()) {
        await client.query(
          "INSERT INTO operation_step (operation_id, position, name, state) VALUES ($1, $2, $3, $4)",
          [
            operation,
            position,
            name,
            operation === "op_2" || position < 2 ? "SUCCEEDED" : "PENDING",
          ],
        );
      }
    }
    await client.query(await sqlOf(THIS));
    const clusters = await client.query(
      "SELECT deletion_protection, brokers, zones, aws, paused, purge_at, drift_status FROM cluster",
    );
    const plain = {
      deletion_protection: false,
      brokers: 1,
      zones: 1,
      aws: null,
      paused: false,
      purge_at: null,
      drift_status: "unknown",
    };
    expect(clusters.rows).toEqual([plain, plain]);
    expect(await stepsIn(client, "op_2")).toEqual(STEPS_BEFORE.map((name) => [name, "SUCCEEDED"]));
    const open = await stepsIn(client, "op_1");
    expect(open.map(([name]) => name)).toEqual(
      // One more came with a later version.
      stepsOf("cluster.create", "local")
        .map((step) => step.name)
        .filter((name) => name !== "create_user"),
    );
    expect(open.slice(0, 5).map(([, state]) => state)).toEqual([
      "SUCCEEDED",
      "PENDING",
      "PENDING",
      "SUCCEEDED",
      "PENDING",
    ]);
  });
});
