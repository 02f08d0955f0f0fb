import { createHash, generateKeyPairSync, verify } from "node:crypto";
import { contracts } from "@millrace/contract";
import { runSql, setUp } from "@millrace/testkit";
import { describe, expect, test } from "vitest";
import { askProcedure, askRoute, type Ids } from "./every-contract.ts";
import {
  type Answer,
  apiFixture,
  call,
  keyOfRole,
  personOfRole,
  runningCluster,
  sessionIdOf,
} from "./fixture.ts";
import { json } from "./record-broker.ts";

const fixture = apiFixture();
const MUTATIONS = contracts.filter(({ method }) => method !== "GET");
let ids: Ids;

setUp(async () => {
  const { app, db, ours } = fixture;
  const { apiKey } = ours;
  const { cluster, operation } = await runningCluster(db, ours, "audited");
  const spare = await call(app, "POST", "/v1/api-keys", { apiKey, body: { name: "spare" } });
  const body = { name: "secret" };
  await call(app, "POST", `/v1/clusters/${cluster.id}/topics`, { apiKey, body });
  const guest = { email: "audited-guest@example.com" };
  const invited = await call(app, "POST", "/v1/invitations", { apiKey, body: guest });
  const members = await call(app, "GET", "/v1/members", { apiKey });
  const mails = await call(app, "GET", "/v1/outgoing-mails", { apiKey });
  const account = await call(app, "POST", "/v1/service-accounts", {
    ...{ apiKey, body: { name: "audited account" } },
  });
  const role = await call(app, "POST", "/v1/roles", {
    ...{ apiKey, body: { name: "audited role", permissions: ["topic:read"] } },
  });
  ids = {
    clusterId: cluster.id,
    operationId: operation.id,
    apiKeyId: spare.body.id,
    environmentId: ours.environment.id,
    organizationId: ours.organization.id,
    memberId: members.body.items[0].id,
    invitationId: invited.body.id,
    sessionId: await sessionIdOf(app, ours),
    serviceAccountId: account.body.id,
    mailId: mails.body.items[0].id,
    roleId: role.body.id,
  };
});

// biome-ignore lint/suspicious/noExplicitAny: bodies are asserted on, field by field.
async function events(query = "", apiKey = fixture.ours.apiKey): Promise<any[]> {
  const answer = await call(fixture.app, "GET", `/v1/audit-events?${query}`, { apiKey });
  expect(answer.status).toBe(200);
  return answer.body.items;
}

const named = (answer: Answer) => answer.headers.get("x-request-id");

function post(path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
  return call(fixture.app, "POST", path, { apiKey: fixture.ours.apiKey, body, headers });
}

describe.each([
  ["REST", askRoute],
  ["tRPC", askProcedure],
] as const)("over %s", (_, ask) => {
  test.each(MUTATIONS)("$name leaves an event with its result", async (contract) => {
    const apiKey = await keyOfRole(fixture.db, fixture.ours, "owner");
    const answer = await ask(fixture.app, contract, ids, { authorization: `Bearer ${apiKey}` });
    const found = (await events(`method=${contract.name}&page_size=10`)).filter(
      ({ request_id }) => request_id === named(answer),
    );
    const outcome = found.find(({ result }) => result !== "started");
    expect(outcome).toMatchObject({
      method: contract.name,
      auth_method: "api_key",
      actor: { kind: "api_key", name: "owner" },
      client_address: "127.0.0.1",
      result: answer.status < 300 ? "success" : "failure",
    });
    const problem = answer.body?.error?.json?.data?.problem ?? answer.body;
    expect(outcome.error_code).toBe(answer.status < 300 ? null : problem.code);
  });
});

test("an event says who asked for what from where, and the target before and after", async () => {
  const { app, ours } = fixture;
  const { cluster } = await runningCluster(fixture.db, ours, "watched");
  const { cookie } = await personOfRole(fixture, "admin");
  const answer = await call(app, "PATCH", `/v1/clusters/${cluster.id}`, {
    headers: { cookie, "x-forwarded-for": "192.0.2.7", "x-request-id": "a-request-of-mine" },
    body: { name: "renamed", labels: { team: "b" } },
  });
  expect(answer.status).toBe(200);
  const [event] = await events(`target_id=${cluster.id}&method=cluster.update`);
  expect(event).toMatchObject({
    auth_method: "session",
    actor: { kind: "user", name: expect.stringContaining("@example.com") },
    ...{ client_address: "192.0.2.7", request_id: "a-request-of-mine", result: "success" },
    request: { cluster_id: cluster.id, name: "renamed", labels: { team: "b" } },
    before: { name: "watched", labels: {} },
    after: { name: "renamed", labels: { team: "b" } },
  });
  expect(BigInt(event.seq)).toBeGreaterThan(0n);
  expect(event.hash).toMatch(/^[0-9a-f]{64}$/);
});

test("what is created is the target, and no secret is in the event", async () => {
  const made = await post("/v1/api-keys", { name: "robot", role: "viewer" });
  const [event] = await events(`target_id=${made.body.id}`);
  expect(event).toMatchObject({
    method: "apiKey.create",
    before: null,
    after: { name: "robot", role: "viewer" },
  });
  expect(JSON.stringify(event)).not.toContain(made.body.secret);
  const { apiKey } = fixture.ours;
  await call(fixture.app, "DELETE", `/v1/api-keys/${made.body.id}`, { apiKey });
  const [revoked] = await events(`target_id=${made.body.id}&method=apiKey.delete`);
  expect(revoked.before.revokedAt).toBeUndefined();
  expect(revoked.after.revokedAt).toEqual(expect.any(String));
});

test("an operation names who asked for it", async () => {
  const made = await post("/v1/clusters", { name: "of-somebody" });
  const path = `/v1/operations/${made.body.operation_id}`;
  const { body } = await call(fixture.app, "GET", path, { apiKey: fixture.ours.apiKey });
  expect(body.created_by).toMatchObject({ kind: "api_key", name: "first key" });
  const [event] = await events(`target_id=${made.body.metadata.id}`);
  expect(event).toMatchObject({ method: "cluster.create", after: { name: "of-somebody" } });
});

test("a change whose event cannot be written is not made", async () => {
  await runSql(fixture.ownerUrl, "REVOKE INSERT ON audit_event FROM millrace_api");
  const refused = await post("/v1/environments", { name: "unaudited" });
  await runSql(fixture.ownerUrl, "GRANT INSERT ON audit_event TO millrace_api");
  expect(refused.status).toBe(500);
  const { body } = await call(fixture.app, "GET", "/v1/environments", {
    apiKey: fixture.ours.apiKey,
  });
  expect(body.items.map(({ name }: { name: string }) => name)).not.toContain("unaudited");
  expect((await post("/v1/environments", { name: "unaudited" })).status).toBe(201);
});

test("changes of many kinds at once wait for each other in no circle", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const made = await post("/v1/environments", { name: "busy" });
  const path = `/v1/environments/${made.body.id}`;
  const answers = await Promise.all(
    Array.from({ length: 24 }, (_, n) =>
      n % 2 === 0
        ? post("/v1/environments", { name: `busy-${n}` })
        : call(app, "PATCH", path, { apiKey, body: { name: `renamed-${n}` } }),
    ),
  );
  expect(answers.filter(({ status }) => status >= 300)).toEqual([]);
});

test("a change of a topic has an event before it and one with its outcome", async () => {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "with-topics");
  const path = `/v1/clusters/${cluster.id}/topics`;
  await post(path, { name: "t" });
  await post(path, { name: "t" });
  const found = (await events(`target_id=${cluster.id}`)).reverse();
  expect(found.map(({ method, result, error_code }) => [method, result, error_code])).toEqual([
    ["topic.create", "started", null],
    ["topic.create", "success", null],
    ["topic.create", "started", null],
    ["topic.create", "failure", "topic_name_taken"],
  ]);
});

test("what never started at a broker is a refusal, of which few are kept", async () => {
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "refused-topics");
  const path = `/v1/clusters/${cluster.id}/topics`;
  for (let round = 0; round < 5; round += 1) {
    expect((await post(path, { name: "!" })).status).toBe(400);
    expect((await post(`${path}/t/records`, { records: "canary" })).status).toBe(400);
  }
  const found = (await events(`target_id=${cluster.id}`)).reverse();
  expect(found.map(({ method, result, error_code }) => [method, result, error_code])).toEqual([
    ["topic.create", "failure", "validation_failed"],
    ["record.produce", "failure", "validation_failed"],
  ]);
  expect(JSON.stringify(found)).not.toContain("canary");
});

const RESULTS = { results: [{ partition: 0, offset: "0", timestamp_ms: "0" }] };

test("of what one caller produces to a topic, one event per minute is kept", async () => {
  fixture.records.answer = (response) => json(response, 200, RESULTS);
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "produced");
  const records = [{ value: { encoding: "text", data: "canary-of-a-customer" } }];
  const produce = async (topic: string, apiKey = fixture.ours.apiKey) => {
    const path = `/v1/clusters/${cluster.id}/topics/${topic}/records`;
    expect((await call(fixture.app, "POST", path, { apiKey, body: { records } })).status).toBe(200);
  };
  for (let round = 0; round < 5; round += 1) await produce("t");
  await produce("u");
  await produce("t", await keyOfRole(fixture.db, fixture.ours, "developer"));
  const found = (await events(`target_id=${cluster.id}`)).reverse();
  expect(found.map(({ actor, request, result }) => [actor.name, request, result])).toEqual(
    [
      ["first key", "t"],
      ["first key", "u"],
      ["developer", "t"],
    ].map(([name, topic]) => [
      name,
      { cluster_id: cluster.id, topic_name: topic, records: { count: 1 } },
      "success",
    ]),
  );
});

test("an outcome whose event cannot be written is still the answer", async () => {
  fixture.records.answer = (response) => json(response, 200, RESULTS);
  const { cluster } = await runningCluster(fixture.db, fixture.ours, "unwritten");
  const path = `/v1/clusters/${cluster.id}/topics`;
  await runSql(fixture.ownerUrl, "REVOKE INSERT ON audit_event FROM millrace_api");
  const produced = await post(`${path}/t/records`, { records: [{ value: null }] });
  const invalid = await post(path, { name: "!" });
  const refused = await post(path, { name: "t" });
  await runSql(fixture.ownerUrl, "GRANT INSERT ON audit_event TO millrace_api");
  expect(produced.status).toBe(200);
  expect(invalid.status).toBe(400);
  // A change of a topic does not begin without its event.
  expect(refused.status).toBe(500);
  expect((await post(path, { name: "t" })).status).toBe(201);
  const results = (await events(`target_id=${cluster.id}`)).map(({ result }) => result);
  expect(results).toEqual(["success", "started"]);
});

test("a preview changes nothing and leaves no event", async () => {
  const before = await events("page_size=1");
  await post("/v1/clusters?validate_only=true", { name: "only-planned" });
  expect(await events("page_size=1")).toEqual(before);
});

test("a replayed answer is no second change", async () => {
  const headers = { "idempotency-key": "once" };
  const made = await post("/v1/environments", { name: "once" }, headers);
  await post("/v1/environments", { name: "once" }, headers);
  expect(await events(`target_id=${made.body.id}`)).toHaveLength(1);
});

test("what a role does not grant is logged, and a flood of it is not", async () => {
  const { app, ours } = fixture;
  const apiKey = await keyOfRole(fixture.db, ours, "viewer");
  const refused = () => call(app, "POST", "/v1/environments", { apiKey, body: { name: "x" } });
  for (let round = 0; round < 30; round += 1) expect((await refused()).status).toBe(403);
  await call(app, "GET", "/v1/audit-events", { apiKey });
  const me = await call(app, "GET", "/v1/me", { apiKey });
  const found = await events(`actor_id=${me.body.api_key.id}`);
  expect(found.map(({ method, result, error_code }) => [method, result, error_code])).toEqual([
    ["auditEvent.list", "denied", "forbidden"],
    ["environment.create", "denied", "forbidden"],
  ]);
});

test("denials are kept per target, also of previews and of records", async () => {
  const { app, ours } = fixture;
  const apiKey = await keyOfRole(fixture.db, ours, "viewer");
  const headers = { authorization: `Bearer ${apiKey}` };
  const targets = [];
  for (const name of ["denied-a", "denied-b"]) {
    const { cluster } = await runningCluster(fixture.db, ours, name);
    targets.push(cluster.id);
    await call(app, "POST", `/v1/clusters/${cluster.id}/topics/t/records`, {
      apiKey,
      body: { records: [{ value: null }] },
    });
    for (const procedure of ["topic.create", "cluster.delete"]) {
      const body = { json: { cluster_id: cluster.id, name: "t", validate_only: true } };
      const path = `/trpc/${procedure}`;
      expect((await call(app, "POST", path, { headers, body })).status).toBe(403);
    }
  }
  for (const id of targets) {
    const found = (await events(`target_id=${id}&result=denied`)).reverse();
    expect(found.map(({ method }) => method)).toEqual([
      "record.produce",
      "topic.create",
      "cluster.delete",
    ]);
  }
});

test("a flood of refusals of ever new keys ends at the organization's bound", async () => {
  const { app, theirs } = fixture;
  const { rateLimits } = fixture.apiDb;
  for (let count = 0; count < 1_000; count += 1) {
    await rateLimits.count(`audit|${theirs.organization.id}`, 3_600_000, Date.now());
  }
  const apiKey = await keyOfRole(fixture.db, theirs, "viewer");
  await call(app, "POST", "/v1/environments", { apiKey, body: { name: "x" } });
  expect(await events("result=denied", theirs.apiKey)).toEqual([]);
});

test("a flood of refusals of one caller ends before it hides those of others", async () => {
  const { app, ours } = fixture;
  const apiKey = await keyOfRole(fixture.db, ours, "viewer");
  const me = await call(app, "GET", "/v1/me", { apiKey });
  const key = `audit|${ours.organization.id}|${me.body.api_key.id}`;
  for (let count = 0; count < 200; count += 1) {
    await fixture.apiDb.rateLimits.count(key, 3_600_000, Date.now());
  }
  await call(app, "POST", "/v1/environments", { apiKey, body: { name: "x" } });
  expect(await events(`actor_id=${me.body.api_key.id}`)).toEqual([]);
  const other = await keyOfRole(fixture.db, ours, "viewer");
  await call(app, "POST", "/v1/environments", { apiKey: other, body: { name: "x" } });
  const { body } = await call(app, "GET", "/v1/me", { apiKey: other });
  expect(await events(`actor_id=${body.api_key.id}`)).toHaveLength(1);
});

test("changes that a broker keeps rejecting end before the log fills with them", async () => {
  const { app, ours } = fixture;
  const apiKey = await keyOfRole(fixture.db, ours, "admin");
  const { cluster } = await runningCluster(fixture.db, ours, "rejecting");
  const create = () =>
    call(app, "POST", `/v1/clusters/${cluster.id}/topics`, { apiKey, body: { name: "twice" } });
  expect((await create()).status).toBe(201);
  const statuses: number[] = [];
  for (let round = 0; round < 102; round += 1) statuses.push((await create()).status);
  expect(new Set(statuses.slice(0, 100))).toEqual(new Set([409]));
  expect(statuses.slice(100)).toEqual([429, 429]);
  const found = await events(`target_id=${cluster.id}&page_size=1000`);
  const lines = found.filter(({ method }) => method === "topic.create");
  // Twice per change that was begun, and one refusal per minute afterwards.
  expect(lines.length).toBeLessThanOrEqual(204);
});

test("a signed export is verified with the installation's public key; a changed or shorter one is not", async () => {
  const { app, ours } = fixture;
  const headers = { authorization: `Bearer ${ours.apiKey}` };
  for (const name of ["signed", "shorter"]) await post("/v1/environments", { name });
  const query = { method: "environment", result: "success" };
  const path = `/v1/audit-events/export?signed=true&${new URLSearchParams(query)}`;
  const before = new Date().toISOString();
  const response = await app.request(path, { headers });
  const key = await (await app.request("/.well-known/millrace-audit-key.pem")).text();
  const text = await response.text();
  const verified = verifyExport(text, key);
  const lines = text.split("\n");
  expect(verified).toMatchObject({
    ...{ organization_id: ours.organization.id, query, complete: true },
    events: lines.length - 3,
  });
  expect(verified?.exported_at >= before).toBe(true);

  expect(lines.length).toBeGreaterThan(4);
  expect(verifyExport(lines.slice(1).join("\n"), key)).toBeUndefined();
  const other = generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" });
  expect(verifyExport(text, other.toString())).toBeUndefined();
  const [first = ""] = lines;
  for (const [told, altered] of [
    [first, first.replace('"result":"', '"result":"x')],
    ['"query":{"method":"environment",', '"query":{'],
    [`"export":{"organization_id":"${ours.organization.id}`, '"export":{"organization_id":"org_1'],
    ['"exported_at":"2', '"exported_at":"3'],
  ] as const) {
    const changed = text.replace(told, altered);
    expect(changed).not.toBe(text);
    expect(verifyExport(changed, key)).toBeUndefined();
  }
});

/** What the export says of itself, if that is true; as OPERATIONS.md tells readers to check with openssl. */
// biome-ignore lint/suspicious/noExplicitAny: asserted on, field by field.
function verifyExport(text: string, publicKey: string): any {
  const lines = text.trimEnd().split("\n");
  const { signature } = JSON.parse(lines.at(-1) ?? "");
  const line = `${lines.at(-2)}\n`;
  if (!verify(null, Buffer.from(line), publicKey, Buffer.from(signature.value, "base64"))) return;
  const events = lines.slice(0, -2).map((event) => `${event}\n`);
  const exported = JSON.parse(line).export;
  const sha256 = createHash("sha256").update(events.join("")).digest("hex");
  return sha256 === exported.sha256 ? exported : undefined;
}

test("pages and the export show the same events, to those who may read them", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const listed: { id: string }[] = [];
  for (let token = ""; ; ) {
    const query = token === "" ? "page_size=7" : `page_size=7&page_token=${token}`;
    const page = await call(app, "GET", `/v1/audit-events?${query}`, { apiKey });
    listed.push(...page.body.items);
    token = page.body.next_page_token ?? "";
    if (token === "") break;
  }
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await app.request("/v1/audit-events/export", { headers });
  expect(response.headers.get("content-type")).toContain("application/x-ndjson");
  expect(response.headers.get("content-disposition")).toContain("audit-events.ndjson");
  const lines = (await response.text()).trim().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toEqual(listed);
  const seqs = listed.map((event) => (event as unknown as { seq: string }).seq);
  expect(seqs).toEqual(seqs.map((_, index) => String(seqs.length - index)));
  for (const role of ["viewer", "developer"] as const) {
    const other = await keyOfRole(fixture.db, ours, role);
    for (const path of ["/v1/audit-events", "/v1/audit-events/export"]) {
      expect((await call(app, "GET", path, { apiKey: other })).status).toBe(403);
    }
  }
});

test("one tenant's events are not another's", async () => {
  const mine = await events("page_size=1000");
  const foreign = await events("page_size=1000", fixture.theirs.apiKey);
  const own = new Set(mine.map(({ id }) => id));
  expect(foreign.filter(({ id }) => own.has(id))).toEqual([]);
});
