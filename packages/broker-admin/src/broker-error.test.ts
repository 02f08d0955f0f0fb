import { expect, test } from "vitest";
import { BrokerError, withDeadline } from "./broker-error.ts";

test("what may pass by itself is worth a retry, the rest is not", () => {
  for (const code of ["unreachable", "timeout", "not_ready", "busy"] as const) {
    expect(new BrokerError(code, "").retryable).toBe(true);
  }
  expect(new BrokerError("invalid_config", "").retryable).toBe(false);
});

test("a deadline fails what takes too long, and nothing else", async () => {
  await expect(withDeadline(new Promise(() => {}), 10, "wait")).rejects.toMatchObject({
    code: "timeout",
  });
  expect(await withDeadline(Promise.resolve(1), 10_000, "wait")).toBe(1);
  await expect(withDeadline(Promise.reject(new Error("x")), 10_000, "wait")).rejects.toThrow("x");
});
