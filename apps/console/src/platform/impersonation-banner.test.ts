import { expect, test } from "vitest";
import { pollOf } from "./impersonation-banner.tsx";

test("asks whether the impersonation goes on only while there is one", () => {
  expect(pollOf({ impersonation: { write: false } })).toBeGreaterThan(0);
  for (const me of [{ impersonation: null }, {}, undefined]) expect(pollOf(me)).toBe(false);
});
