import { type Contract, contracts } from "@millrace/contract";
import { newId } from "@millrace/domain";
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, apiFixture, call, hasBody, runningCluster } from "./fixture.ts";

/**
 * Every route is called by one tenant with the ids of another. The answer must be that of an id
 * which does not exist, word for word but for the id; lists must be empty. The routes come from the
 * contracts: a new one fails here until it says how it is to be called.
 */
const fixture = apiFixture();

interface Ids {
  readonly clusterId: string;
  readonly operationId: string;
  readonly apiKeyId: string;
  readonly environmentId: string;
  readonly organizationId: string;
}

type Case =
  | { readonly kind: "by_id"; readonly path: (ids: Ids) => string; readonly body?: object }
  | { readonly kind: "in_body"; readonly body: (ids: Ids) => object }
  | { readonly kind: "list"; readonly query?: (ids: Ids) => string }
  /** Names no id: the credentials alone decide what is answered. */
  | { readonly kind: "own"; readonly body?: object };

const CASES: Record<string, Case> = {
  "cluster.create": {
    kind: "in_body",
    body: (ids) => ({ name: "intruder", environment_id: ids.environmentId }),
  },
  "cluster.list": { kind: "list", query: (ids) => `environment_id=${ids.environmentId}` },
  "cluster.get": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}` },
  "cluster.update": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}`,
    body: { deletion_protection: true },
  },
  "cluster.delete": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}` },
  "cluster.pause": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/pause` },
  "cluster.resume": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/resume` },
  "cluster.recover": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/recover` },
  "cluster.restore": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/restore` },
  "cluster.drift": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/drift` },
  "cluster.checkDrift": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/check-drift`,
  },
  "cluster.reconcile": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/reconcile` },
  "cluster.acceptDrift": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/accept-drift`,
    body: { digest: "0".repeat(64) },
  },
  "operation.list": { kind: "list", query: (ids) => `cluster_id=${ids.clusterId}` },
  "operation.get": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}` },
  "operation.watch": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}/events` },
  "operation.plan": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}/plan` },
  "operation.cancel": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}/cancel` },
  "operation.retry": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}/retry` },
  "operation.approve": {
    kind: "by_id",
    path: (ids) => `/v1/operations/${ids.operationId}/approve`,
    body: { digest: "0".repeat(64) },
  },
  "topic.create": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics`,
    body: { name: "t" },
  },
  "topic.list": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/topics` },
  "topic.get": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret` },
  "topic.update": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret`,
    body: { partitions: 9 },
  },
  "topic.delete": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret` },
  "record.produce": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret/records`,
    body: { records: [{ value: { encoding: "text", data: "intruder" } }] },
  },
  "record.list": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret/records`,
  },
  "record.stream": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret/records/stream`,
  },
  "consumerGroup.list": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/consumer-groups`,
  },
  "catchUp.get": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/catch-up` },
  "tuning.get": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/tuning` },
  "tuning.update": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/tuning`,
    body: { prefetch_max_bytes: 1_048_576 },
  },
  "tuning.history": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/tuning/history`,
  },
  "metrics.query": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/metrics` },
  "benchmark.run": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/benchmarks` },
  "benchmark.list": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/benchmarks` },
  "benchmark.get": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/benchmarks/${newId("bmk")}`,
  },
  // Taken by us: what is in the way is told, and must be our own.
  "environment.create": { kind: "own", body: { name: "default" } },
  "environment.list": { kind: "list" },
  "environment.get": { kind: "by_id", path: (ids) => `/v1/environments/${ids.environmentId}` },
  "environment.update": {
    kind: "by_id",
    path: (ids) => `/v1/environments/${ids.environmentId}`,
    body: { name: "taken over" },
  },
  "environment.delete": { kind: "by_id", path: (ids) => `/v1/environments/${ids.environmentId}` },
  "apiKey.create": { kind: "own" },
  "apiKey.list": { kind: "list" },
  "apiKey.get": { kind: "by_id", path: (ids) => `/v1/api-keys/${ids.apiKeyId}` },
  "apiKey.delete": { kind: "by_id", path: (ids) => `/v1/api-keys/${ids.apiKeyId}` },
  "region.list": { kind: "own" },
  "size.list": { kind: "own" },
  "version.list": { kind: "own" },
  "account.me": { kind: "own" },
};

let theirs: Ids;
beforeAll(async () => {
  const { app, db } = fixture;
  const { cluster, operation } = await runningCluster(db, fixture.theirs, "secret-cluster");
  const me = await call(app, "GET", "/v1/me", { apiKey: fixture.theirs.apiKey });
  await call(app, "POST", `/v1/clusters/${cluster.id}/topics`, {
    apiKey: fixture.theirs.apiKey,
    body: { name: "secret" },
  });
  theirs = {
    clusterId: cluster.id,
    operationId: operation.id,
    apiKeyId: me.body.api_key.id,
    environmentId: fixture.theirs.environment.id,
    organizationId: fixture.theirs.organization.id,
  };
});

const absent: Ids = {
  clusterId: newId("clu"),
  operationId: newId("op"),
  apiKeyId: newId("key"),
  environmentId: newId("env"),
  organizationId: newId("org"),
};

test("every route has a case", () => {
  expect(Object.keys(CASES).sort()).toEqual(contracts.map((contract) => contract.name).sort());
});

describe.each(contracts)("$name", (contract) => {
  test("another tenant's id is one that does not exist", async () => {
    const theirAnswer = await ask(contract, theirs);
    const absentAnswer = await ask(contract, absent);
    const [kind] = [CASES[contract.name]?.kind];
    if (kind === "by_id" || kind === "in_body") {
      expect(theirAnswer.status).toBe(404);
      expect(theirAnswer.body.code).toBe("not_found");
    }
    if (kind === "list" && CASES[contract.name]) expect(theirAnswer.status).toBe(200);
    expect(withoutIds(theirAnswer)).toEqual(withoutIds(absentAnswer));
    for (const secret of Object.values(theirs)) {
      const echoed = JSON.stringify(theirAnswer.body.detail ?? "");
      expect(JSON.stringify(theirAnswer.body).replace(echoed, "").includes(`"${secret}"`)).toBe(
        false,
      );
    }
  });
});

test("nothing of the other tenant has changed", async () => {
  const { app } = fixture;
  const { apiKey } = fixture.theirs;
  const cluster = await call(app, "GET", `/v1/clusters/${theirs.clusterId}`, { apiKey });
  expect(cluster.body.status.phase).toBe("RUNNING");
  const topics = await call(app, "GET", `/v1/clusters/${theirs.clusterId}/topics`, { apiKey });
  expect(topics.body.items.map((topic: { name: string }) => topic.name)).toEqual(["secret"]);
  const history = `/v1/clusters/${theirs.clusterId}/tuning/history`;
  expect((await call(app, "GET", history, { apiKey })).body.items).toEqual([]);
  expect(fixture.records.asked).toEqual([]);
});

test("the header that names a tenant opens only those the person belongs to", async () => {
  const { app, ours } = fixture;
  const signIn = await call(app, "POST", "/api/auth/sign-in/email", {
    body: { email: ours.email, password: ours.password },
  });
  const cookie = signIn.headers.get("set-cookie")?.split(";")[0] ?? "";
  const own = { cookie, "millrace-organization": ours.organization.id };
  expect((await call(app, "GET", "/v1/me", { headers: own })).status).toBe(200);
  const foreign = { cookie, "millrace-organization": theirs.organizationId };
  expect((await call(app, "GET", "/v1/me", { headers: foreign })).status).toBe(404);
});

test("a page token of one tenant opens nothing of another, nor of another list", async () => {
  const { app, db, ours } = fixture;
  await runningCluster(db, fixture.theirs, "another");
  const first = await call(app, "GET", "/v1/clusters?page_size=1", {
    apiKey: fixture.theirs.apiKey,
  });
  const token = first.body.next_page_token;
  expect(token).toBeDefined();
  for (const [path, apiKey] of [
    [`/v1/clusters?page_token=${token}`, ours.apiKey],
    [`/v1/operations?page_token=${token}`, fixture.theirs.apiKey],
    [`/v1/clusters?page_token=${token.slice(0, -2)}AA`, fixture.theirs.apiKey],
    [
      `/v1/clusters?page_token=${token}&environment_id=${theirs.environmentId}`,
      fixture.theirs.apiKey,
    ],
  ] as const) {
    const answer = await call(app, "GET", path, { apiKey });
    expect(answer.status).toBe(400);
    expect(answer.body.code).toBe("invalid_page_token");
  }
});

async function ask(contract: Contract, ids: Ids): Promise<Answer> {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const each = CASES[contract.name];
  if (each?.kind === "by_id") {
    const body = hasBody(contract) ? { body: each.body ?? {} } : {};
    return call(app, contract.method, each.path(ids), { apiKey, ...body });
  }
  if (each?.kind === "in_body") {
    return call(app, contract.method, contract.path, { apiKey, body: each.body(ids) });
  }
  if (each?.kind === "list") {
    return call(app, contract.method, `${contract.path}?${each.query?.(ids) ?? ""}`, { apiKey });
  }
  const own = each?.kind === "own" ? each.body : undefined;
  const body = contract.method === "POST" ? { body: own ?? { name: "own" } } : {};
  return call(app, contract.method, contract.path, { apiKey, ...body });
}

/** What an answer says, apart from ids, times, secrets and the request's own name. */
function withoutIds(answer: Answer): unknown {
  const text = JSON.stringify({ status: answer.status, body: answer.body })
    .replaceAll(/[a-z]{2,3}_[0-9A-HJKMNP-TV-Z]{26}/g, "ID")
    .replaceAll(/mrk_[A-Za-z0-9_-]{6,43}/g, "SECRET")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME");
  const parsed = JSON.parse(text);
  // Both calls of a route that makes or uses things of our own may differ in how many there are.
  if (Array.isArray(parsed.body?.items)) parsed.body.items = parsed.body.items.length;
  return parsed;
}
