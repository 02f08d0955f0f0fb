import { describe, expect, test } from "vitest";
import { readEnv } from "./env.ts";

const GOOD = {
  DATABASE_URL: "postgres://millrace_gateway:x@localhost/millrace",
  MILLRACE_GATEWAY_TOKEN: "t".repeat(32),
  MILLRACE_GATEWAY_TLS_FILE: "/keys/gateway.pem",
};

test("what is not set has its default", () => {
  expect(readEnv(GOOD)).toMatchObject({
    listen: { host: "127.0.0.1", port: 4100 },
    internalListen: { host: "127.0.0.1", port: 4101 },
    internalUrl: undefined,
  });
});

test("addresses of both families are read", () => {
  const env = readEnv({
    ...GOOD,
    MILLRACE_GATEWAY_LISTEN: "[::1]:1",
    MILLRACE_GATEWAY_INTERNAL_LISTEN: "0.0.0.0:65535",
    MILLRACE_GATEWAY_INTERNAL_URL: "http://10.0.0.1:4101/",
  });
  expect(env.listen).toEqual({ host: "::1", port: 1 });
  expect(env.internalListen).toEqual({ host: "0.0.0.0", port: 65_535 });
  expect(env.internalUrl).toBe("http://10.0.0.1:4101");
});

test.each([
  [{ MILLRACE_GATEWAY_LISTEN: "4100" }, /must be host:port.*\n.*MILLRACE_GATEWAY_LISTEN/],
  [{ MILLRACE_GATEWAY_LISTEN: "localhost:65536" }, /host:port/],
  [{ MILLRACE_GATEWAY_TOKEN: "short" }, /MILLRACE_GATEWAY_TOKEN/],
  [{ MILLRACE_GATEWAY_TLS_FILE: "" }, /MILLRACE_GATEWAY_TLS_FILE/],
  [{ DATABASE_URL: "mysql://x" }, /DATABASE_URL/],
])("%j is refused by name", (change, problem) => {
  expect(() => readEnv({ ...GOOD, ...change })).toThrow(problem);
});

describe("a gateway that listens on every address", () => {
  const everywhere = { ...GOOD, MILLRACE_GATEWAY_INTERNAL_LISTEN: "0.0.0.0:4101" };

  test("is reached at the only one that its machine has", () => {
    expect(readEnv(everywhere, ["10.90.4.7"]).internalUrl).toBe("http://10.90.4.7:4101");
  });

  test.each([[[]], [["10.90.4.7", "172.17.0.1"]]])("has to be told which of %j", (addresses) => {
    expect(() => readEnv(everywhere, addresses)).toThrow(/set MILLRACE_GATEWAY_INTERNAL_URL/);
  });
});

test("only who says so leaves TLS to a load balancer", () => {
  expect(readEnv({ ...GOOD, MILLRACE_GATEWAY_TLS_FILE: "none" }).tlsFile).toBeUndefined();
  expect(readEnv(GOOD).tlsFile).toBe("/keys/gateway.pem");
});
