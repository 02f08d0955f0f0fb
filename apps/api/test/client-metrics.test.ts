import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

test("client metrics are what clients pushed last", async () => {
  const { app, db, ours, kafka } = fixture;
  const { apiKey } = ours;
  const { cluster } = await runningCluster(db, ours, "client-metrics");
  const path = `/v1/clusters/${cluster.id}/client-metrics`;
  const nothing = await call(app, "GET", path, { apiKey });
  expect([nothing.status, nothing.body]).toEqual([200, { items: [], truncated: false }]);
  kafka.measuredClients.set(`127.0.0.1:${cluster.placement?.kafkaPort}`, {
    clients: [
      {
        ...{ clientId: "app", instanceId: "i", softwareName: "java", softwareVersion: undefined },
        ...{ address: "10.0.0.1", intervalMs: 1_000, isTerminating: false },
        pushedAt: new Date("2026-11-29T12:00:00Z"),
        metrics: [
          { name: "m", labels: { topic: "t" }, kind: "gauge", value: null, count: undefined },
        ],
      },
    ],
    isTruncated: true,
  });
  const shown = await call(app, "GET", `${path}?client_id=app&metric=m&limit=5`, { apiKey });
  expect(shown.body).toEqual({
    items: [
      {
        ...{ client_id: "app", client_instance_id: "i", software_name: "java" },
        ...{ software_version: null, address: "10.0.0.1", interval_ms: 1_000 },
        ...{ pushed_at: "2026-11-29T12:00:00.000Z", terminating: false },
        metrics: [{ name: "m", labels: { topic: "t" }, kind: "gauge", value: null, count: null }],
      },
    ],
    truncated: true,
  });
  for (const illegal of ["limit=0", "limit=1001", `client_id=${"x".repeat(256)}`]) {
    expect((await call(app, "GET", `${path}?${illegal}`, { apiKey })).status, illegal).toBe(400);
  }
});
