import { setUp } from "@millrace/testkit";
import superjson from "superjson";
import { describe, expect, test } from "vitest";
import { type Answer, apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();
let clusterId: string;
let operationId: string;

setUp(async () => {
  const { cluster, operation } = await runningCluster(fixture.db, fixture.theirs, "theirs");
  clusterId = cluster.id;
  operationId = operation.id;
});

function query(path: string, input: object, apiKey = fixture.ours.apiKey): Promise<Answer> {
  const encoded = encodeURIComponent(JSON.stringify(superjson.serialize(input)));
  return call(fixture.app, "GET", `/trpc/${path}?input=${encoded}`, { apiKey });
}

function mutate(path: string, input: object, apiKey = fixture.ours.apiKey): Promise<Answer> {
  const body = superjson.serialize(input);
  return call(fixture.app, "POST", `/trpc/${path}`, { apiKey, body });
}

test("a procedure answers as its REST route does", async () => {
  const { app, theirs } = fixture;
  const procedure = await query("cluster.get", { cluster_id: clusterId }, theirs.apiKey);
  const route = await call(app, "GET", `/v1/clusters/${clusterId}`, { apiKey: theirs.apiKey });
  expect(procedure.body.result.data.json).toEqual(route.body);
});

describe("another tenant's id is one that does not exist", () => {
  test.each([
    ["cluster.get", () => query("cluster.get", { cluster_id: clusterId })],
    ["operation.get", () => query("operation.get", { operation_id: operationId })],
    ["operation.watch", () => query("operation.watch", { operation_id: operationId })],
    ["topic.list", () => query("topic.list", { cluster_id: clusterId })],
    ["topic.create", () => mutate("topic.create", { cluster_id: clusterId, name: "t" })],
    ["cluster.delete", () => mutate("cluster.delete", { cluster_id: clusterId })],
    ["tuning.get", () => query("tuning.get", { cluster_id: clusterId })],
    ["tuning.update", () => mutate("tuning.update", { cluster_id: clusterId })],
    [
      "tuning.revert",
      () => mutate("tuning.revert", { cluster_id: clusterId, change_id: "tch_none" }),
    ],
    ["tuning.history", () => query("tuning.history", { cluster_id: clusterId })],
    ["catchUp.get", () => query("catchUp.get", { cluster_id: clusterId })],
    ["metrics.query", () => query("metrics.query", { cluster_id: clusterId })],
  ])("%s", async (_, send) => {
    const { status, body } = await send();
    if (status === 200) {
      // A stream has begun before it knows: its error comes as an event.
      expect(body).toContain("not_found");
      expect(body).not.toContain("operation.created");
    } else {
      expect(status).toBe(404);
      expect(body.error.json.data.problem.code).toBe("not_found");
    }
  });
});

test("an error carries the problem, and a message that says what to do", async () => {
  await mutate("cluster.create", { name: "taken" });
  const { status, body } = await mutate("cluster.create", { name: "taken" });
  expect(status).toBe(409);
  const { message, data } = body.error.json;
  expect(data.problem).toMatchObject({ code: "cluster_name_taken", status: 409 });
  expect(message).toContain(data.problem.remedy);
  expect(JSON.stringify(body)).not.toContain("stack");
});

test("an unknown field is refused here too", async () => {
  const { status, body } = await mutate("cluster.create", { name: "n", no_such: 1 });
  expect(status).toBe(400);
  expect(body.error.json.data.problem.errors[0].pointer).toBe("/no_such");
});

test("without credentials nothing is answered", async () => {
  const { status, body } = await query("cluster.list", {}, "");
  expect(status).toBe(401);
  expect(body.error.json.data.problem.code).toBe("unauthenticated");
});

test("lists page by cursor for clients that page by themselves", async () => {
  const { db, theirs } = fixture;
  await runningCluster(db, theirs, "second");
  const first = await query("cluster.list", { page_size: 1 }, theirs.apiKey);
  const cursor = first.body.result.data.json.next_page_token;
  const input = { page_size: 1, cursor, direction: "forward" };
  const next = await query("cluster.list", input, theirs.apiKey);
  expect(next.body.result.data.json.items[0].metadata.id).toBe(clusterId);
});

test("a batch that is too long is refused", async () => {
  const path = Array.from({ length: 21 }, () => "account.me").join(",");
  const { status } = await call(fixture.app, "GET", `/trpc/${path}?batch=1&input=%7B%7D`, {
    apiKey: fixture.ours.apiKey,
  });
  expect(status).toBe(400);
});
