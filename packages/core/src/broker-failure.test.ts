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

test.each<[BrokerErrorCode, string, string]>([
  [
    "topic_not_found",
    "orders",
    "Check the name: the list of the cluster's topics has all of them.",
  ],
  [
    "group_not_found",
    "g",
    "Check the name: the list of the cluster's consumer groups has all of them.",
  ],
  ["user_not_found", "bob", "Check the name: the list of the cluster's users has all of them."],
  [
    "user_not_found",
    "admin",
    "Create a user named admin: it is a super user of the cluster again.",
  ],
])("a broker's %s of %s says what to do", async (code, name, remedy) => {
  const call = atBroker(name, () => Promise.reject(new BrokerError(code, "none")));
  await expect(call).rejects.toMatchObject({ remedy });
});

test("a retriable error of a broker that serves is told by its name, not as a start", async () => {
  const kafkaError = "KAFKA_STORAGE_ERROR";
  const error = new BrokerError("temporarily_failed", "a secret of ours", { kafkaError });
  await expect(atBroker("orders", () => Promise.reject(error))).rejects.toMatchObject({
    message: "The broker cannot carry out the request at the moment: KAFKA_STORAGE_ERROR.",
  });
});
