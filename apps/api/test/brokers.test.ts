/** Clusters of several brokers: created, scaled, restarted, and what is told of each broker. */
import type { ClusterId, ClusterMember } from "@millrace/domain";
import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

function ask(method: string, path: string, body?: unknown) {
  const { apiKey } = fixture.ours;
  return call(fixture.app, method, path, { apiKey, ...(body !== undefined && { body }) });
}

async function running(name: string, brokers: number) {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, name, brokers);
  return { cluster, path: `/v1/clusters/${cluster.id}` };
}

async function operationOf(id: ClusterId) {
  const operationId = (await fixture.db.operations.latestOf([id])).get(id);
  return operationId && (await fixture.db.operations.load(operationId));
}

test("a local cluster has one broker unless more are asked for, and nine at most", async () => {
  const one = await ask("POST", "/v1/clusters", { name: "one" });
  expect([one.status, one.body.spec.brokers]).toEqual([202, 1]);
  const three = await ask("POST", "/v1/clusters", { name: "three", brokers: 3 });
  expect([three.status, three.body.spec.brokers]).toEqual([202, 3]);
  expect(three.body.status.brokers).toMatchObject([
    { broker_id: 1, control_link: "never" },
    { broker_id: 2 },
    { broker_id: 3 },
  ]);
  const ten = await ask("POST", "/v1/clusters", { name: "ten", brokers: 10 });
  expect(ten.status).toBe(400);
  expect(ten.body.errors).toMatchObject([{ pointer: "/brokers" }]);
});

test("each endpoint names every broker", async () => {
  const { path, cluster } = await running("addresses", 3);
  const port = cluster.placement?.kafkaPort ?? 0;
  const { endpoints } = (await ask("GET", path)).body.status;
  expect(endpoints[0].bootstrap_servers).toBe(
    `127.0.0.1:${port},127.0.0.1:${port + 1},127.0.0.1:${port + 2}`,
  );
});

test("a change of the number is an operation, and shows what is there until it begins", async () => {
  const { path, cluster } = await running("scaled", 3);
  const body = { brokers: 5, require_approval: true };
  const changed = await ask("PATCH", path, body);
  expect(changed.status).toBe(202);
  expect(changed.body).toMatchObject({ spec: { brokers: 5 }, status: { phase: "UPDATING" } });
  expect(changed.body.status.brokers).toHaveLength(3);
  expect(await operationOf(cluster.id)).toMatchObject({
    kind: "cluster.update",
    parameters: { spec: { brokers: 5 }, origin: { spec: { brokers: 3 } } },
  });
});

test.each([
  ["from 1", 1, 3],
  ["to 1", 3, 1],
])("the number does not change %s, and the answer says why", async (which, from, to) => {
  const { path } = await running(which.replace(" ", "-"), from);
  const refused = await ask("PATCH", path, { brokers: to });
  expect(refused.status).toBe(400);
  expect(refused.body.errors).toMatchObject([{ pointer: "/brokers", code: "not_applicable" }]);
  expect(refused.body.errors[0].message).toContain("metadata in a file of its own");
  const same = await ask("PATCH", path, { brokers: from });
  expect(same.status).toBe(200);
});

test("on AWS, several brokers need two zones", async () => {
  const body = { name: "aws", region: "us-east-1", size: "small", brokers: 3 };
  const refused = await ask("POST", "/v1/clusters", { ...body, zones: 1 });
  expect(refused.status).toBe(400);
  expect(refused.body.errors).toMatchObject([{ pointer: "/zones", code: "too_small" }]);
  // This installation has no account: nothing else is in the way.
  const { code, errors } = (await ask("POST", "/v1/clusters", body)).body;
  expect([code, errors[0].pointer]).toEqual(["region_unavailable", "/region"]);
});

test("one broker is restarted, or all of them", async () => {
  const { path, cluster } = await running("restarted", 2);
  const unknown = await ask("POST", `${path}/restart`, { broker_id: 3 });
  expect(unknown.status).toBe(404);
  const accepted = await ask("POST", `${path}/restart`, { broker_id: 2 });
  expect(accepted.status).toBe(202);
  expect(accepted.body.kind).toBe("cluster.restart");
  expect(await operationOf(cluster.id)).toMatchObject({ parameters: { brokerId: 2 } });
  expect((await ask("GET", path)).body.status.phase).toBe("UPDATING");
  const busy = await ask("POST", `${path}/restart`, {});
  expect(busy.body.code).toBe("cluster_busy");
  const all = await running("all-restarted", 1);
  expect((await ask("POST", `${all.path}/restart`, {})).status).toBe(202);
  expect((await operationOf(all.cluster.id))?.parameters.brokerId).toBeUndefined();
});

test("brokers are listed with what they lead, how full their logs are, and what happened", async () => {
  const { path, cluster } = await running("listed", 2);
  const member = (brokerId: number, more: Partial<ClusterMember> = {}): ClusterMember => {
    const usual = { state: "active", rack: "local-a", version: "0.1.0", leaders: 4, moving: 0 };
    return { brokerId, ...usual, ...more } as ClusterMember;
  };
  fixture.kafka.members = {
    members: [member(1), member(2, { state: "fenced", leaders: 0 }), member(3, { state: "left" })],
    events: [{ at: new Date(0), kind: "fenced", brokerId: 2, text: "Node 2 was not heard from." }],
  };
  const { brokers, events } = (await ask("GET", `${path}/brokers`)).body;
  expect(brokers).toMatchObject([
    { broker_id: 1, state: "active", zone: "local-a", leaders: 4, uptime_seconds: 61 },
    { broker_id: 2, state: "fenced", leaders: 0, control_link: "never", last_heard_at: null },
  ]);
  expect(brokers[0].wal.capacity_bytes).toMatch(/^\d+$/);
  expect(events).toEqual([
    {
      at: "1970-01-01T00:00:00.000Z",
      kind: "fenced",
      broker_id: 2,
      text: "Node 2 was not heard from.",
    },
  ]);

  fixture.kafka.down.add(
    (await ask("GET", path)).body.status.endpoints[0].bootstrap_servers as string,
  );
  const silent = (await ask("GET", `${path}/brokers`)).body;
  expect(silent).toMatchObject({ brokers: [{ state: "unknown", wal: null }, {}], events: [] });
  await fixture.db.clusters.changePhase(cluster.id, { to: "DELETING" });
  expect((await ask("GET", `${path}/brokers`)).body.brokers).toHaveLength(2);
});

test("the only broker of a cluster is listed without what it shares with nobody", async () => {
  const { path } = await running("alone", 1);
  const { brokers, events } = (await ask("GET", `${path}/brokers`)).body;
  expect(brokers).toMatchObject([{ broker_id: 0, state: "active", zone: null, leaders: null }]);
  expect(events).toEqual([]);
});
