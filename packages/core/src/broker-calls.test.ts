import type { OrganizationId } from "@millrace/domain";
import { expect, test } from "vitest";
import { BrokerCalls } from "./broker-calls.ts";

const OURS = "org_ours" as OrganizationId;
const THEIRS = "org_theirs" as OrganizationId;

test("one organization's calls to brokers are bounded, and leave others theirs", () => {
  const calls = new BrokerCalls();
  for (let made = 0; made < 300; made += 1) calls.take(OURS);
  expect(() => {
    for (let made = 0; made < 100; made += 1) calls.take(OURS);
  }).toThrow("limit is 30 broker requests per second");
  calls.take(THEIRS);
});

test("connections to brokers are bounded, and free again when a call ends or fails", async () => {
  const calls = new BrokerCalls();
  const { promise, resolve } = Promise.withResolvers<void>();
  const open = Array.from({ length: 16 }, () => calls.connected(OURS, () => promise));
  await expect(calls.connected(OURS, async () => 1)).rejects.toThrow("At most 16 requests");
  expect(await calls.connected(THEIRS, async () => 1)).toBe(1);
  resolve();
  await Promise.all(open);
  await expect(calls.connected(OURS, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await calls.connected(OURS, async () => 2)).toBe(2);
});
