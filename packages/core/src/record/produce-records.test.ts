import { BrokerError, type BrokerErrorCode } from "@millrace/broker-admin";
import { newId, type Principal } from "@millrace/domain";
import { expect, test } from "vitest";
import type { Core } from "../core.ts";
import { produceRecords } from "./produce-records.ts";

const CALLER = {
  organizationId: "org_a",
  userId: "usr_a",
  role: "developer",
} as unknown as Principal;

function produce(failure: BrokerError) {
  const core = {
    db: { clusters: { get: async () => ({ phase: "RUNNING", conditions: [] }) } },
    brokerHttp: async () => ({ records: { produce: () => Promise.reject(failure) } }),
  } as unknown as Core;
  const request = { records: [{ value: null }] };
  return produceRecords(core, CALLER, { clusterId: newId("clu"), topicName: "orders", request });
}

test.each<BrokerErrorCode>(["timeout", "unreachable", "malformed_answer"])(
  "after %s nobody knows whether the records are written",
  async (code) => {
    const failure = produce(new BrokerError(code, "the answer is missing"));
    await expect(failure).rejects.toMatchObject({ code: "produce_outcome_unknown" });
  },
);

test("a broker that has records over HTTP disabled says what to do", async () => {
  const said = "this broker does not serve records over HTTP; use a Kafka client";
  const failure = produce(new BrokerError("records_disabled", said, { said }));
  await expect(failure).rejects.toMatchObject({
    code: "not_supported",
    message: "This broker does not serve records over HTTP; use a Kafka client.",
  });
});

test("a broker without a link has written nothing, and one whose link broke may have", async () => {
  const from = (code: BrokerErrorCode, kafkaError: string) =>
    produce(new BrokerError(code, "the gateway's words", { kafkaError }));
  await expect(from("unreachable", "BROKER_NOT_CONNECTED")).rejects.toMatchObject({
    code: "broker_unavailable",
  });
  await expect(from("timeout", "BROKER_DISCONNECTED")).rejects.toMatchObject({
    code: "produce_outcome_unknown",
  });
});

test("a refused connection has written nothing", async () => {
  const refused = Object.assign(new Error("connect"), { code: "ECONNREFUSED" });
  const cause = new TypeError("fetch failed", { cause: refused });
  const failure = produce(new BrokerError("unreachable", "nothing listens", { cause }));
  await expect(failure).rejects.toMatchObject({ code: "broker_unavailable" });
});
