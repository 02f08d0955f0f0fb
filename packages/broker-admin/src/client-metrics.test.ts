import { expect, test } from "vitest";
import { ClientMetricsAnswer, measuredClientsOf, mergeMeasuredClients } from "./client-metrics.ts";

const CLIENT = {
  ...{ client_id: "app", client_instance_id: "i", software_name: null, software_version: null },
  ...{ address: "10.0.0.1", interval_ms: 1_000, pushed_at: "2026-11-29T12:00:00.000Z" },
  terminating: false,
  metrics: [{ name: "m", labels: { topic: "t" }, kind: "gauge", value: 1.5 }],
};

function answer(clients: readonly object[], truncated = false) {
  return measuredClientsOf(ClientMetricsAnswer.parse({ clients, truncated, total: 9 }));
}

test("the broker's answer in our terms", () => {
  expect(answer([CLIENT])).toEqual({
    clients: [
      {
        ...{ clientId: "app", instanceId: "i", softwareName: undefined },
        ...{ softwareVersion: undefined, address: "10.0.0.1", intervalMs: 1_000 },
        ...{ pushedAt: new Date("2026-11-29T12:00:00Z"), isTerminating: false },
        metrics: [
          { name: "m", labels: { topic: "t" }, kind: "gauge", value: 1.5, count: undefined },
        ],
      },
    ],
    isTruncated: false,
  });
});

test("a client that has moved is shown once, by the broker that it pushed to last", () => {
  const later = { ...CLIENT, pushed_at: "2026-11-29T12:00:01.000Z", address: "10.0.0.2" };
  const other = { ...CLIENT, client_id: "a", client_instance_id: "j" };
  const merged = mergeMeasuredClients([answer([later]), answer([CLIENT, other])], 10);
  expect(merged.clients.map(({ instanceId, address }) => [instanceId, address])).toEqual([
    ["j", "10.0.0.1"],
    ["i", "10.0.0.2"],
  ]);
  expect(merged.isTruncated).toBe(false);
  const one = mergeMeasuredClients([answer([CLIENT, other])], 1);
  expect([one.clients.length, one.isTruncated]).toEqual([1, true]);
});
