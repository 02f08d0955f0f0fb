import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();
const NONE = {
  producer_byte_rate: null,
  consumer_byte_rate: null,
  request_percentage: null,
  controller_mutation_rate: null,
};

test("quotas are set limit by limit, listed in pages, and deleted", async () => {
  const { app, db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "quotas");
  const send = (method: string, below = "", body?: object) =>
    call(app, method, `/v1/clusters/${cluster.id}/quotas${below}`, {
      apiKey: ours.apiKey,
      ...(body !== undefined && { body }),
    });
  const set = await send("POST", "", { user: "alice", producer_byte_rate: 1_048_576 });
  expect(set.status).toBe(200);
  expect(set.body).toEqual({
    ...NONE,
    ...{ user: "alice", client_id: null, producer_byte_rate: 1_048_576 },
  });
  const more = { user: "alice", consumer_byte_rate: 2, producer_byte_rate: null };
  expect((await send("POST", "", more)).body).toMatchObject({
    ...{ producer_byte_rate: null, consumer_byte_rate: 2 },
  });
  await send("POST", "", { user: "<default>", request_percentage: 50 });
  await send("POST", "", { user: "alice", client_id: "app", controller_mutation_rate: 1 });
  await send("POST", "", { client_id: "<default>", producer_byte_rate: 1 });
  const first = await send("GET", "?page_size=3");
  const rest = await send("GET", `?page_size=3&page_token=${first.body.next_page_token}`);
  const entities = [...first.body.items, ...rest.body.items].map(({ user, client_id }) => [
    user,
    client_id,
  ]);
  expect(entities).toHaveLength(4);
  expect(entities).toEqual(
    expect.arrayContaining([
      ...[
        [null, "<default>"],
        ["<default>", null],
        ["alice", "app"],
      ],
      ["alice", null],
    ]),
  );
  expect((await send("DELETE", "?user=alice")).status).toBe(204);
  expect((await send("DELETE", "?user=alice")).status).toBe(404);
  expect((await send("GET")).body.items).toHaveLength(3);

  for (const [body, pointer] of [
    [{ producer_byte_rate: 1 }, "/user"],
    [{ user: "alice", producer_byte_rate: 0 }, "/producer_byte_rate"],
    [{ user: "alice", producer_byte_rate: 1.5 }, "/producer_byte_rate"],
    [{ user: "alice" }, ""],
  ] as const) {
    const refused = await send("POST", "", body);
    expect([refused.status, refused.body.errors?.[0].pointer]).toEqual([400, pointer]);
  }
});

test("a change that was made succeeds, whatever becomes of the broker afterwards", async () => {
  const { app, db, ours, kafka } = fixture;
  const { apiKey } = ours;
  const { cluster } = await runningCluster(db, ours, "silent-quotas");
  const path = `/v1/clusters/${cluster.id}/quotas`;
  const set = (body: object) => call(app, "POST", path, { apiKey, body });
  await set({ user: "alice", producer_byte_rate: 1, consumer_byte_rate: 2 });
  kafka.silentAfterQuota.add(`127.0.0.1:${cluster.placement?.kafkaPort}`);
  const changed = await set({ user: "alice", producer_byte_rate: null, request_percentage: 5 });
  expect(changed.status).toBe(200);
  expect(changed.body).toMatchObject({ ...NONE, consumer_byte_rate: 2, request_percentage: 5 });
  expect((await call(app, "GET", path, { apiKey })).body.items).toEqual([changed.body]);
});

test("the usage of quotas is what the broker tells of clients that were active", async () => {
  const { app, db, ours, kafka } = fixture;
  const { cluster } = await runningCluster(db, ours, "quota-usage");
  const path = `/v1/clusters/${cluster.id}/quota-usage`;
  const { apiKey } = ours;
  expect((await call(app, "GET", path, { apiKey })).body).toEqual({ items: [] });
  kafka.quotaUsages.set(`127.0.0.1:${cluster.placement?.kafkaPort}`, [
    {
      ...{ quota: "producer_byte_rate", user: "alice", clientId: undefined },
      ...{ limit: 1_024, rate: 2_048.5, throttleMs: 12 },
    },
  ]);
  expect((await call(app, "GET", path, { apiKey })).body.items).toEqual([
    {
      ...{ quota: "producer_byte_rate", user: "alice", client_id: null },
      ...{ limit: 1_024, rate: 2_048.5, throttle_ms: 12 },
    },
  ]);
});
