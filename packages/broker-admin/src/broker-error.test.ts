import { MultipleErrors, NetworkError, ProtocolError, TimeoutError } from "@platformatic/kafka";
import { expect, test } from "vitest";
import { BrokerError, toBrokerError, withDeadline } from "./broker-error.ts";

/** The Kafka client wraps errors in errors; what matters lies at some depth. */
function wrapped(error: Error): Error {
  return new MultipleErrors("outer", [new MultipleErrors("inner", [error])]);
}

for (const [kafkaError, code] of [
  ["TOPIC_ALREADY_EXISTS", "topic_exists"],
  ["UNKNOWN_TOPIC_OR_PARTITION", "topic_not_found"],
  ["INVALID_TOPIC_EXCEPTION", "invalid_topic_name"],
  ["INVALID_CONFIG", "invalid_config"],
  ["NON_EMPTY_GROUP", "group_not_empty"],
  ["POLICY_VIOLATION", "refused"],
] as const) {
  test(`Kafka's ${kafkaError} is ${code}`, () => {
    const error = toBrokerError(wrapped(new ProtocolError(kafkaError)), "do it");
    expect(error).toMatchObject({ code, kafkaError });
    expect(error.message).toMatch(/^could not do it: /);
  });
}

test("what the broker said is told, where it said something", () => {
  const error = toBrokerError(
    wrapped(new ProtocolError("INVALID_CONFIG", "not a number")),
    "do it",
  );
  expect(error.message).toBe("could not do it: not a number");
  expect(error.said).toBe("not a number");
  expect(toBrokerError(new ProtocolError("INVALID_CONFIG"), "do it").said).toBeUndefined();
});

test("connections and time-outs are worth a retry, the rest is not", () => {
  const retryable = (error: Error) => toBrokerError(wrapped(error), "do it").retryable;
  expect(retryable(new NetworkError("closed"))).toBe(true);
  expect(retryable(new TimeoutError("late"))).toBe(true);
  expect(retryable(new ProtocolError("INVALID_CONFIG"))).toBe(false);
  expect(toBrokerError("a string", "do it")).toMatchObject({ code: "refused" });
});

test("an error of ours passes unchanged", () => {
  const error = new BrokerError("topic_not_found", "gone");
  expect(toBrokerError(error, "do it")).toBe(error);
});

test("a deadline fails what takes too long, and nothing else", async () => {
  await expect(withDeadline(new Promise(() => {}), 10, "wait")).rejects.toMatchObject({
    code: "timeout",
  });
  expect(await withDeadline(Promise.resolve(1), 10_000, "wait")).toBe(1);
  await expect(withDeadline(Promise.reject(new Error("x")), 10_000, "wait")).rejects.toThrow("x");
});
