import { RETAIN_DAYS_MAX } from "@millrace/domain";
import { expect, test } from "vitest";
import { KEPT_BY_DEFAULT, retainDays } from "./retention.ts";

test("data that is to go at once is kept for no days, whatever the field holds", () => {
  for (const days of [7, "", "x"]) expect(retainDays({ kept: false, days })).toBe(0);
});

test.each([1, RETAIN_DAYS_MAX, "30"])(
  "data that is kept is kept for as long as was entered: %s",
  (days) => {
    expect(retainDays({ kept: true, days })).toBe(Number(days));
  },
);

test.each(["", " ", "-", "soon", 0, "0", -1, 1.5, RETAIN_DAYS_MAX + 1, Number.NaN])(
  "what is no number of days never becomes a deletion at once: %j",
  (days) => {
    expect(retainDays({ kept: true, days })).toBeUndefined();
  },
);

test("data is kept for a week unless somebody chooses otherwise", () => {
  expect(retainDays(KEPT_BY_DEFAULT)).toBe(7);
});
