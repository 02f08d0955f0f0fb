import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { setUp } from "@millrace/testkit";
import { expect, test, vi } from "vitest";
import { apiFixture, call, keyOfRole, runningCluster } from "./fixture.ts";

const fixture = apiFixture();
let server: Server;
let operation: string;

setUp(async () => {
  server = serve({ fetch: fixture.app.fetch, hostname: "127.0.0.1", port: 0 }) as Server;
  await once(server, "listening");
  const { db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "watched");
  const { id } = await db.operations.create({
    organizationId: ours.organization.id,
    clusterId: cluster.id,
    kind: "cluster.update",
  });
  operation = `/v1/operations/${id}`;
  return () => {
    server.closeAllConnections();
    server.close();
  };
});

function open(path: string, apiKey: string, signal: AbortSignal): Promise<Response> {
  return fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, {
    headers: { authorization: `Bearer ${apiKey}` },
    signal,
  });
}

test.each([
  ["event streams", () => `${operation}/events`, 16],
  ["requests that wait", () => `${operation}?wait=30s`, 32],
])(
  "%s have a bound per key, and a caller that leaves gives its slot back",
  async (_, path, max) => {
    const apiKey = await keyOfRole(fixture.db, fixture.ours, "viewer");
    const leaving = new AbortController();
    const refused: Response[] = [];
    const held = Array.from({ length: max + 2 }, async () => {
      const answer = await open(path(), apiKey, leaving.signal).catch(() => undefined);
      if (answer?.status === 429) refused.push(answer);
    });
    await vi.waitFor(() => expect(refused).toHaveLength(2), 20_000);
    expect(refused[0]?.headers.get("content-type")).toBe("application/problem+json");
    expect(Number(refused[0]?.headers.get("retry-after"))).toBeGreaterThan(0);
    leaving.abort();
    await Promise.all(held);
    const probe = () => open(path(), apiKey, AbortSignal.timeout(300)).catch(() => undefined);
    await vi.waitFor(async () => expect((await probe())?.status).not.toBe(429), 20_000);
  },
);

test("one caller exports the audit log once at a time", async () => {
  const apiKey = await keyOfRole(fixture.db, fixture.ours, "admin");
  const path = "/v1/audit-events/export";
  // Held for as long as its answer is not read.
  const first = await fixture.app.request(path, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  expect(first.status).toBe(200);
  expect((await call(fixture.app, "GET", path, { apiKey })).status).toBe(429);
  await first.text();
  expect((await call(fixture.app, "GET", path, { apiKey })).status).toBe(200);
});

test("a page of groups makes the broker describe that page, not every group", async () => {
  const { kafka, ours } = fixture;
  const { cluster } = await runningCluster(fixture.db, ours, "many-groups");
  const address = `127.0.0.1:${cluster.placement?.kafkaPort}`;
  const groups = Array.from({ length: 500 }, (_, at) => ({
    groupId: `group-${String(at).padStart(3, "0")}`,
    state: "Empty",
    protocolType: "consumer",
    ...{ members: 0, lag: 0n, partitionCount: 0, offlinePartitionCount: 0 },
    ...{ committedOffsetSum: 0n, partitions: [] },
  }));
  kafka.groups.set(address, groups);
  kafka.groupsDescribed = 0;
  const list = `/v1/clusters/${cluster.id}/consumer-groups?page_size=10`;
  const first = await call(fixture.app, "GET", list, { apiKey: ours.apiKey });
  const next = `${list}&page_token=${encodeURIComponent(first.body.next_page_token)}`;
  const second = await call(fixture.app, "GET", next, { apiKey: ours.apiKey });
  expect(second.body.items[0].group_id).toBe("group-010");
  expect(kafka.groupsDescribed).toBe(20);
});
