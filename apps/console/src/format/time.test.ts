import { expect, it, test } from "vitest";
import { ago, clockTime, duration } from "./time.ts";

it("names the largest whole unit", () => {
  const now = Date.parse("2026-11-21T12:00:00Z");
  expect(ago("2026-11-21T11:59:40Z", now)).toBe("just now");
  expect(ago("2026-11-21T11:57:00Z", now)).toBe("3 minutes ago");
  expect(ago("2026-11-21T09:00:00Z", now)).toBe("3 hours ago");
  expect(ago("2026-11-19T12:00:00Z", now)).toBe("2 days ago");
});

test.each([
  [-1, "0 s"],
  [0.2, "0 s"],
  [42.4, "42 s"],
  [59.6, "60 s"],
  [240, "4 min"],
  [3_590, "1 h"],
  [7_800, "2 h 10 min"],
  [7_200, "2 h"],
  [100_000, "28 h"],
  [300_000, "3 days"],
])("%d seconds are %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

test("a record's time has milliseconds, however far away it is", () => {
  const local = new Date(2026, 10, 22, 19, 44, 14, 7);
  expect(clockTime(String(local.getTime()))).toBe("22 Nov, 19:44:14.007");
  expect(clockTime("9223372036854775807")).toBe("9223372036854775807 ms");
  expect(clockTime("-1")).toMatch(/:59\.999$/);
});
