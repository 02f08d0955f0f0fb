import { runSql } from "@millrace/testkit";
import { expect, test } from "vitest";
import { apiFixture, call, ROOT_CERTIFICATE, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

test("a cluster is accepted: visible at once, with its operation to follow", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const body = { name: "accepted", region: "local", size: "dev", labels: { team: "a" } };
  const made = await call(app, "POST", "/v1/clusters", { apiKey, body });
  expect(made.status).toBe(202);
  expect(made.headers.get("location")).toBe(`/v1/operations/${made.body.operation_id}`);
  expect(made.body).toMatchObject({
    metadata: { id: expect.stringMatching(/^clu_/), labels: { team: "a" } },
    spec: { name: "accepted", environment_id: ours.environment.id },
    status: { phase: "PROVISIONING", endpoints: [], observed_revision: 0 },
  });
  const { operation_id, ...cluster } = made.body;
  const got = await call(app, "GET", `/v1/clusters/${made.body.metadata.id}`, { apiKey });
  expect(got.body).toEqual(cluster);
  const operation = await call(app, "GET", made.headers.get("location") ?? "", { apiKey });
  expect(operation.body).toMatchObject({
    id: operation_id,
    kind: "cluster.create",
    target: { type: "cluster", id: made.body.metadata.id },
    phase: "PENDING",
    done: false,
    progress: { percent: 0 },
  });
  expect(operation.body.steps.length).toBeGreaterThan(3);
});

test("a name can be had once, by one of many who ask at the same time", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const answers = await Promise.all(
    Array.from({ length: 5 }, () =>
      call(app, "POST", "/v1/clusters", { apiKey, body: { name: "wanted" } }),
    ),
  );
  expect(answers.map((answer) => answer.status).sort()).toEqual([202, 409, 409, 409, 409]);
  const refused = answers.find((answer) => answer.status === 409);
  expect(refused?.body).toMatchObject({
    code: "cluster_name_taken",
    errors: [{ pointer: "/name", code: "taken" }],
  });
  const theirs = await call(app, "POST", "/v1/clusters", {
    apiKey: fixture.theirs.apiKey,
    body: { name: "wanted" },
  });
  expect(theirs.status).toBe(202);
});

test("a running cluster shows its endpoint, and its entity tag saves the body", async () => {
  const { app, db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "running");
  const path = `/v1/clusters/${cluster.id}`;
  const got = await call(app, "GET", path, { apiKey: ours.apiKey });
  const { kafkaPort, tlsPort } = cluster.placement ?? {};
  expect(got.body.status.endpoints).toEqual([
    { name: "kafka", protocol: "PLAINTEXT", bootstrap_servers: `127.0.0.1:${kafkaPort}` },
    { name: "kafka-tls", protocol: "SASL_SSL", bootstrap_servers: `127.0.0.1:${tlsPort}` },
  ]);
  const etag = got.headers.get("etag") ?? "";
  expect(got.body.metadata.etag).toBe(`"${cluster.version}"`);
  const headers = { "if-none-match": etag };
  expect((await call(app, "GET", path, { apiKey: ours.apiKey, headers })).status).toBe(304);
});

test("the CA certificate of a running cluster is a PEM file; one that never ran has none yet", async () => {
  const { app, db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "trusted");
  const options = { headers: { authorization: `Bearer ${ours.apiKey}` } };
  const got = await app.request(`/v1/clusters/${cluster.id}/ca-certificate`, options);
  expect(got.status).toBe(200);
  expect(got.headers.get("content-type")).toBe("application/x-pem-file");
  expect(await got.text()).toBe(ROOT_CERTIFICATE);
  const created = await call(app, "POST", "/v1/clusters", {
    apiKey: ours.apiKey,
    body: { name: "not-yet" },
  });
  const path = `/v1/clusters/${created.body.metadata.id}/ca-certificate`;
  const early = await call(app, "GET", path, { apiKey: ours.apiKey });
  expect(early).toMatchObject({ status: 409, body: { code: "cluster_not_ready" } });
});

test("deleting checks the entity tag, then makes the cluster busy", async () => {
  const { app, db, ours } = fixture;
  const { apiKey } = ours;
  const { cluster } = await runningCluster(db, ours, "doomed");
  const path = `/v1/clusters/${cluster.id}`;
  const stale = await call(app, "DELETE", path, { apiKey, headers: { "if-match": '"0"' } });
  expect(stale.status).toBe(412);
  const { body: seen } = await call(app, "GET", path, { apiKey });
  const headers = { "if-match": seen.metadata.etag };
  const accepted = await call(app, "DELETE", path, { apiKey, headers });
  expect(accepted.status).toBe(202);
  expect(accepted.headers.get("location")).toBe(`/v1/operations/${accepted.body.id}`);
  expect((await call(app, "GET", path, { apiKey })).body.status.phase).toBe("DELETING");
  const again = await call(app, "DELETE", path, { apiKey });
  expect(again.status).toBe(409);
  expect(again.body).toMatchObject({ code: "cluster_busy", retryable: true });
  expect(again.body.detail).toContain(accepted.body.id);
  expect(again.headers.get("retry-after")).toMatch(/^\d+$/);
});

test("pages cover the list once, newest first", async () => {
  const { app, db, theirs } = fixture;
  const names = ["p1", "p2", "p3", "p4", "p5"];
  for (const name of names) await runningCluster(db, theirs, name);
  const seen: string[] = [];
  let path: string | undefined = "/v1/clusters?page_size=2";
  while (path) {
    const { body } = await call(app, "GET", path, { apiKey: theirs.apiKey });
    expect(body.items.length).toBeLessThanOrEqual(2);
    seen.push(...body.items.map((cluster: { spec: { name: string } }) => cluster.spec.name));
    path = body.next_page_token && `/v1/clusters?page_size=2&page_token=${body.next_page_token}`;
  }
  expect(seen.filter((name) => names.includes(name))).toEqual([...names].reverse());
  expect(new Set(seen).size).toBe(seen.length);
});

test("a long poll answers when the operation is done, and at the latest after its time", async () => {
  const { app, db, ours } = fixture;
  const { apiKey } = ours;
  const made = await call(app, "POST", "/v1/clusters", { apiKey, body: { name: "polled" } });
  const operationId = made.body.operation_id;
  const path = `/v1/operations/${operationId}`;
  const begun = performance.now();
  const early = await call(app, "GET", `${path}?wait=1s`, { apiKey });
  expect(early.body.done).toBe(false);
  expect(performance.now() - begun).toBeGreaterThan(900);
  const waiting = call(app, "GET", `${path}?wait=30s`, { apiKey });
  await db.journal.claim(operationId, "test", 60_000);
  await db.journal.complete({ operationId, attempt: 1 }, { phase: "SUCCEEDED" });
  expect((await waiting).body).toMatchObject({ done: true, progress: { percent: 100 } });
  expect(performance.now() - begun).toBeLessThan(10_000);
});

test("each broker's connection to the control plane, and since when it is down", async () => {
  const { app, db, ownerUrl, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "linked");
  const path = `/v1/clusters/${cluster.id}`;
  const read = async (headers = {}) => call(app, "GET", path, { apiKey: ours.apiKey, headers });
  const never = await read();
  expect(never.body.status.brokers).toEqual([{ broker_id: 0, control_link: "never", since: null }]);

  const [connectedAt, heardAt] = ["2026-11-20T10:00:00.000Z", "2026-11-20T11:00:00.000Z"];
  await runSql(
    ownerUrl,
    `INSERT INTO gateway (id, internal_url) VALUES ('gw', 'http://gw:1');
     INSERT INTO broker_link (cluster_id, broker_id, link_id, gateway_id, connected_at, last_heard_at, remote_address,
       broker_version, broker_start)
     VALUES ('${cluster.id}', 0, 'l', 'gw', '${connectedAt}', '${heardAt}', '127.0.0.1', '0.1.0', 's')`,
  );
  const connected = await read();
  const link = { broker_id: 0, control_link: "connected", since: connectedAt };
  expect(connected.body.status.brokers).toEqual([link]);

  const inPhase = (phase: string) =>
    runSql(ownerUrl, `UPDATE cluster SET phase = '${phase}' WHERE id = '${cluster.id}'`);
  await inPhase("PAUSED");
  expect((await read()).body.status.brokers).toEqual([
    { broker_id: 0, control_link: "disconnected", since: heardAt },
  ]);
  await inPhase("RUNNING");

  await runSql(ownerUrl, "UPDATE gateway SET last_seen_at = now() - interval '1 minute'");
  const etag = connected.headers.get("etag") ?? "";
  const cutOff = await read({ "if-none-match": etag });
  expect(cutOff.status).toBe(200);
  expect(cutOff.body.metadata.etag).toBe(connected.body.metadata.etag);
  expect(cutOff.body.status.brokers).toEqual([
    { broker_id: 0, control_link: "disconnected", since: heardAt },
  ]);
  const listed = await call(app, "GET", "/v1/clusters?page_size=100", { apiKey: ours.apiKey });
  expect(listed.body.items).toContainEqual(cutOff.body);
  // The cluster itself is as it was read: a change decided on that is made.
  const patch = { labels: { team: "b" } };
  const headers = { "if-match": etag, "content-type": "application/merge-patch+json" };
  const changed = await call(app, "PATCH", path, { apiKey: ours.apiKey, headers, body: patch });
  expect(changed.status).toBe(200);
});
