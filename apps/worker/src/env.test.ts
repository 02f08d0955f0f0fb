import { expect, test } from "vitest";
import { readEnv } from "./env.ts";

const DATABASE_URL = "postgres://localhost/millrace";

test("gives brokers what they need and none of the product's secrets", () => {
  const env = readEnv({
    DATABASE_URL,
    MILLRACE_AUTH_SECRET: "secret",
    PATH: "/bin",
    AWS_REGION: "eu-central-1",
    RUST_LOG: "info",
  });
  expect(env.brokerEnvironment).toEqual({
    PATH: "/bin",
    AWS_REGION: "eu-central-1",
    RUST_LOG: "info",
  });
  expect(env.stopBrokersOnExit).toBe(false);
});

test("names what is missing", () => {
  expect(() => readEnv({})).toThrow("DATABASE_URL");
  expect(() => readEnv({ DATABASE_URL, MILLRACE_STOP_BROKERS_ON_EXIT: "yes" })).toThrow(
    "MILLRACE_STOP_BROKERS_ON_EXIT",
  );
});
