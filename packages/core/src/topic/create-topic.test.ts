import { BrokerError } from "@millrace/broker-admin";
import type { ClusterId, Principal } from "@millrace/domain";
import { expect, test } from "vitest";
import type { Core } from "../core.ts";
import { createTopic } from "./create-topic.ts";

const CLUSTER = "clu_01JD0000000000000000000000" as ClusterId;
const STARTED_AT = Date.parse("2026-11-22T10:00:00Z");

/** A broker that creates nothing in time and takes fifteen seconds to say that it is too slow. */
function slowBroker() {
  const seen = { now: STARTED_AT, described: 0 };
  const timeout = () => new BrokerError("timeout", "the broker did not answer in time");
  const topics = {
    create: async () => {
      throw timeout();
    },
    describe: async () => {
      seen.described += 1;
      seen.now += 15_000;
      throw timeout();
    },
  };
  const cluster = {
    ...{ id: CLUSTER, name: "orders", phase: "RUNNING", observedRevision: 1, conditions: [] },
    placement: { host: "127.0.0.1", kafkaPort: 9092, adminPort: 9093 },
  };
  const core = {
    db: { clusters: { get: async () => cluster } },
    clock: { now: () => new Date(seen.now) },
    brokerHttp: async () => ({ topics }),
  } as unknown as Core;
  return { core, seen };
}

test("the wait for a late topic is bounded by time, however slowly the broker answers", async () => {
  const { core, seen } = slowBroker();
  const topic = { clusterId: CLUSTER, name: "events", partitions: 5_000, configs: {} };
  const created = createTopic(core, { organizationId: "org_a" } as unknown as Principal, topic);
  await expect(created).rejects.toMatchObject({ code: "broker_unavailable" });
  expect(seen.described).toBe(2);
});
