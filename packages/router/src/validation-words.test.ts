import {
  contracts,
  createApiKey,
  createCluster,
  createTopic,
  listClusters,
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
] as const)("$name says what is wrong at a field", (contract, input, pointer, message) => {
  expect(messages(contract, input)[pointer]).toBe(message);
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
