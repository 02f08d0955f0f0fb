import { expect, test } from "vitest";
import { apiFixture, call, keyOfRole, runningCluster } from "./fixture.ts";

const fixture = apiFixture();
const ACL = {
  principal: "User:alice",
  resource_type: "topic",
  resource_name: "orders",
  pattern_type: "literal",
  operation: "write",
  permission: "allow",
  host: "*",
};

async function clusterWithAcls(name: string) {
  const { app, db, ours, kafka } = fixture;
  const { cluster } = await runningCluster(db, ours, name);
  const address = `127.0.0.1:${cluster.placement?.kafkaPort}`;
  const path = `/v1/clusters/${cluster.id}/acls`;
  const send = (method: string, below = "", body?: object) =>
    call(app, method, `${path}${below}`, {
      apiKey: ours.apiKey,
      ...(body !== undefined && { body }),
    });
  const query = (fields: object) => `?${new URLSearchParams(Object.entries(fields))}`;
  return { path, address, kafka, send, query };
}

test("an ACL is created, found by filters, and deleted by its fields", async () => {
  const { send, query } = await clusterWithAcls("acls");
  const { pattern_type: _p, permission: _a, host: _h, ...least } = ACL;
  const made = await send("POST", "", least);
  expect(made.status).toBe(201);
  expect(made.body).toEqual(ACL);
  expect((await send("POST", "", ACL)).status).toBe(201);
  const prefixed = { ...ACL, resource_name: "ord", pattern_type: "prefixed", operation: "read" };
  await send("POST", "", prefixed);
  const bob = { ...ACL, principal: "User:bob", resource_name: "bills" };
  await send("POST", "", bob);
  const items = async (filter: object) => (await send("GET", query(filter))).body.items;
  expect(await items({})).toEqual([bob, prefixed, ACL]);
  expect(await items({ principal: "User:bob" })).toEqual([bob]);
  expect(await items({ resource_name: "orders" })).toEqual([ACL]);
  expect(await items({ resource_name: "orders", pattern_type: "match" })).toEqual([prefixed, ACL]);
  const first = await send("GET", query({ page_size: "2" }));
  const token = first.body.next_page_token;
  const rest = await send("GET", query({ page_size: "2", page_token: token }));
  expect([...first.body.items, ...rest.body.items]).toEqual([bob, prefixed, ACL]);
  expect((await send("DELETE", query(ACL))).status).toBe(204);
  const again = await send("DELETE", query(ACL));
  expect([again.status, again.body.code]).toEqual([404, "not_found"]);
  const log = await call(fixture.app, "GET", "/v1/audit-events?method=acl.delete", {
    apiKey: fixture.ours.apiKey,
  });
  // Nothing was begun at the broker for the ACL that is gone.
  const results = log.body.items.map(({ result }: { result: string }) => result);
  expect(results).toEqual(["failure", "success", "started"]);
  expect(await items({})).toEqual([bob, prefixed]);
  const { host: _, ...incomplete } = prefixed;
  expect((await send("DELETE", query(incomplete))).status).toBe(400);
});

test("rules that never decide anything are refused with their pointer", async () => {
  const { send } = await clusterWithAcls("acl-refusals");
  for (const [change, pointer] of [
    [{ operation: "create_tokens" }, "/operation"],
    [{ resource_type: "cluster", operation: "create" }, "/resource_name"],
    [
      {
        ...{ resource_type: "cluster", resource_name: "kafka-cluster" },
        ...{ pattern_type: "prefixed", operation: "create" },
      },
      "/pattern_type",
    ],
    [{ principal: "alice" }, "/principal"],
    [{ host: "example.org" }, "/host"],
    [{ resource_name: "" }, "/resource_name"],
  ] as const) {
    const refused = await send("POST", "", { ...ACL, ...change });
    expect([refused.status, refused.body.errors?.[0].pointer]).toEqual([400, pointer]);
  }
});

test("a template makes what its client needs, and the test names the rule that decides", async () => {
  const { send, query, address, kafka } = await clusterWithAcls("acl-template");
  const made = await send("POST", "/apply-template", {
    ...{ template: "consumer", principal: "User:carol" },
    ...{ topic: "orders", group: "billing" },
  });
  expect(made.status).toBe(201);
  expect(made.body.items).toHaveLength(3);
  const ask = (operation: string, more: object = {}) =>
    send(
      "GET",
      `/test${query({
        ...{ principal: "User:carol", operation },
        ...{ resource_type: "topic", resource_name: "orders", ...more },
      })}`,
    );
  const read = await ask("read");
  expect(read.body).toEqual({
    allowed: true,
    reason: "allowed_by_acl",
    acl: { ...ACL, principal: "User:carol", operation: "read" },
  });
  expect((await ask("write")).body).toEqual({ allowed: false, reason: "no_acl_allows", acl: null });
  const denial = {
    ...{ ...ACL, principal: "User:*", permission: "deny", operation: "all" },
    ...{ resource_name: "o", pattern_type: "prefixed", host: "10.0.0.1" },
  };
  await send("POST", "", denial);
  expect((await ask("read", { address: "10.0.0.1" })).body).toMatchObject({ acl: denial });
  expect((await ask("read", { address: "10.0.0.2" })).body.allowed).toBe(true);
  kafka.settingsOf(address).set("super.users", "User:root; User:carol");
  expect((await ask("write")).body).toMatchObject({ allowed: true, reason: "super_user" });
});

test("a cluster without an authorizer says so", async () => {
  const { send, query, address, kafka } = await clusterWithAcls("no-authorizer");
  kafka.withoutAuthorizer.add(address);
  for (const answer of [await send("GET"), await send("POST", "", ACL)]) {
    expect([answer.status, answer.body.code]).toEqual([422, "not_supported"]);
  }
  const question = { principal: "User:a", operation: "read", resource_type: "topic" };
  const asked = await send("GET", `/test${query({ ...question, resource_name: "t" })}`);
  expect(asked.body).toEqual({ allowed: true, reason: "authorization_off", acl: null });
});

test("a viewer sees ACLs and tests them, and changes none", async () => {
  const { path } = await clusterWithAcls("viewed-acls");
  const apiKey = await keyOfRole(fixture.db, fixture.ours, "viewer");
  expect((await call(fixture.app, "GET", path, { apiKey })).status).toBe(200);
  expect((await call(fixture.app, "POST", path, { apiKey, body: ACL })).status).toBe(403);
});
