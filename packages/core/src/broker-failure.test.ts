import { BrokerError, type BrokerErrorCode } from "@millrace/broker-admin";
import { expect, test } from "vitest";
import { atBroker } from "./broker-failure.ts";

test.each<[BrokerErrorCode, string, number]>([
  ["unreachable", "broker_unavailable", 503],
  ["timeout", "broker_unavailable", 503],
  ["not_ready", "broker_unavailable", 503],
  ["temporarily_failed", "broker_unavailable", 503],
  ["unsupported", "broker_failed", 502],
  ["malformed_answer", "broker_failed", 502],
  ["refused", "broker_failed", 502],
  ["unauthorized", "broker_failed", 502],
  ["busy", "broker_unavailable", 503],
  ["request_too_large", "payload_too_large", 413],
  ["topic_not_found", "not_found", 404],
  ["group_not_found", "not_found", 404],
])("a broker's %s is %s, %i", async (code, ours, status) => {
  const call = atBroker("orders", () => Promise.reject(new BrokerError(code, "a secret of ours")));
  await expect(call).rejects.toMatchObject({ code: ours, status });
  await expect(call).rejects.not.toThrow("a secret of ours");
});

test("a retriable error of a broker that serves is told by its name, not as a start", async () => {
  const kafkaError = "KAFKA_STORAGE_ERROR";
  const error = new BrokerError("temporarily_failed", "a secret of ours", { kafkaError });
  await expect(atBroker("orders", () => Promise.reject(error))).rejects.toMatchObject({
    message: "The broker cannot carry out the request at the moment: KAFKA_STORAGE_ERROR.",
  });
});
