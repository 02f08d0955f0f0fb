import { expect, test } from "vitest";
import { purgeAt, RETAIN_DAYS_DEFAULT } from "./deletion.ts";

test("data is kept for whole days from the deletion on, or goes with the cluster", () => {
  const now = new Date("2026-03-01T12:00:00Z");
  expect(purgeAt(now, 7)).toEqual(new Date("2026-03-08T12:00:00Z"));
  expect(purgeAt(now, 0)).toBeUndefined();
});

test("a deleted cluster's data is kept for a week unless the request says otherwise", () => {
  expect(RETAIN_DAYS_DEFAULT).toBe(7);
});
