import { expect, test } from "vitest";
import { limitText, mebibytesOf, quotaWords, rateOf } from "./quota-words.ts";

test.each([
  [{ user: "alice", client_id: null }, "user alice"],
  [{ user: "<default>", client_id: null }, "every other user"],
  [{ user: null, client_id: "app" }, "client ID app"],
  [{ user: "alice", client_id: "<default>" }, "user alice, every other client ID"],
])("%j", (quota, words) => {
  expect(quotaWords(quota)).toBe(words);
});

test("rates are typed as MiB/s, and no rate is nothing", () => {
  expect(rateOf("1.5")).toBe(1_572_864);
  expect(rateOf("")).toBeNull();
  expect(mebibytesOf(1_572_864)).toBe(1.5);
  expect(mebibytesOf(null)).toBe("");
});

test("amounts have the unit of their quota", () => {
  expect(limitText("producer_byte_rate", 1_572_864)).toBe("1.5 MiB/s");
  expect(limitText("request_percentage", 12.345)).toBe("12.35 %");
  expect(limitText("controller_mutation_rate", 3)).toBe("3/s");
});
