import {
  contracts,
  createApiKey,
  createCluster,
  createInvitation,
  createTopic,
  createUser,
  exportAuditEvents,
  getOperation,
  listClusters,
  produceRecords,
  queryMetrics,
  setQuota,
  updateCluster,
} from "@millrace/contract";
import { expect, test } from "vitest";
import { toProblem } from "./problem.ts";

const CONTEXT = { requestId: "req_1", instance: "/v1" };

function problemOf(contract: (typeof contracts)[number], input: unknown) {
  return toProblem(contract.input.safeParse(input).error, CONTEXT);
}

function messages(contract: (typeof contracts)[number], input: unknown): Record<string, string> {
  const { errors } = problemOf(contract, input);
  return Object.fromEntries(errors.map(({ pointer, message }) => [pointer, message]));
}

test("99999 partitions are refused in our words, not the validator's", () => {
  const topic = { cluster_id: "clu_x", name: "t", partitions: 99_999 };
  expect(messages(createTopic, topic)).toEqual({ "/partitions": "must be at most 10,000" });
});

test.each([
  [createCluster, {}, "/name", "is required"],
  [createCluster, { name: 7 }, "/name", "must be a string"],
  [createCluster, { name: "a", size: "galaxy" }, "/size", "must be one of dev, small, medium"],
  [createCluster, { name: "a", brokers: 1.5 }, "/brokers", "must be a whole number"],
  [createCluster, { name: "a", brokers: 0 }, "/brokers", "must be at least 1"],
  [createApiKey, { name: "" }, "/name", "must not be empty"],
  [listClusters, { page_size: "many" }, "/page_size", "must be a number"],
  [
    listClusters,
    { page_token: "x".repeat(1_001) },
    "/page_token",
    "must have at most 1,000 characters",
  ],
  [setQuota, { producer_byte_rate: 0 }, "/producer_byte_rate", "must be more than 0"],
  [setQuota, { request_percentage: 0 }, "/request_percentage", "must be more than 0"],
  [createApiKey, { permissions: [] }, "/permissions", "must not be empty"],
  [createTopic, { name: "." }, "/name", 'must not be "." or ".."'],
  [createTopic, { name: ".." }, "/name", 'must not be "." or ".."'],
  [createInvitation, { email: "abc" }, "/email", "must be an e-mail address"],
  [updateCluster, { validate_only: "maybe" }, "/validate_only", "must be true or false"],
  [exportAuditEvents, { signed: "maybe" }, "/signed", "must be true or false"],
  [
    queryMetrics,
    { from: "abc" },
    "/from",
    "must be RFC 3339 like 2026-01-31T12:00:00Z, or milliseconds since the epoch",
  ],
  [
    createCluster,
    { labels: { ä: "b" } },
    "/labels/ä",
    "is not a valid name: it must be lowercase letters, digits, underscores and hyphens, and start with a letter",
  ],
] as const)("$name says what is wrong at a field", (contract, input, pointer, message) => {
  expect(messages(contract, input)[pointer]).toBe(message);
});

const TOPIC = { cluster_id: "clu_x", name: "t" };
const OPERATION = { operation_id: "op_x" };
const CLUSTER = { cluster_id: "clu_x" };

test.each([
  [createTopic, { ...TOPIC, name: "a".repeat(250) }, "name must have at most 249 characters"],
  [createTopic, { ...TOPIC, name: "" }, "name must not be empty"],
  [createTopic, { ...TOPIC, partitions: 1e30 }, "partitions must be at most 10,000"],
  [createUser, { ...TOPIC, name: "a".repeat(400) }, "name must have at most 128 characters"],
  [getOperation, { ...OPERATION, wait: "999999s" }, "wait must be 55s or less"],
  [getOperation, { ...OPERATION, wait: "abc" }, "wait must be whole seconds like 30s"],
  [queryMetrics, { ...CLUSTER, step: "abc" }, "step must be whole seconds like 10 or 10s"],
  [queryMetrics, { ...CLUSTER, step: "1" }, "step must be 2 seconds or more"],
  [
    setQuota,
    { ...CLUSTER, producer_byte_rate: 1e300 },
    "producer_byte_rate must be at most 1,000,000,000,000",
  ],
  [
    produceRecords,
    { ...CLUSTER, topic_name: "t", records: [{ partition: 1e20 }] },
    "records.0.partition must be at most 9,999",
  ],
] as const)("$name says of one mistake one thing", (contract, input, sentence) => {
  expect(problemOf(contract, input).detail).toBe(`Invalid request: ${sentence}.`);
});

test.each(contracts)("$name: no message is the validator's own", (contract) => {
  const wrong = Object.fromEntries(Object.keys(contract.input.shape).map((name) => [name, []]));
  for (const message of Object.values(messages(contract, wrong))) {
    expect(message).not.toMatch(/invalid input|too (big|small)|expected|received|pattern/i);
  }
});

test("the detail names every invalid field, not the first alone", () => {
  const { detail } = problemOf(createCluster, { size: "galaxy", region: "moon" });
  expect(detail).toMatch(/^The request has 3 invalid fields: name is required; region must be/);
  expect(detail).toContain("size must be one of dev, small, medium");
  expect(problemOf(createCluster, {}).detail).toBe("Invalid request: name is required.");
});
