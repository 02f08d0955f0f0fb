import { expect, it } from "vitest";
import { ago } from "./time.ts";

it("names the largest whole unit", () => {
  const now = Date.parse("2026-11-21T12:00:00Z");
  expect(ago("2026-11-21T11:59:40Z", now)).toBe("just now");
  expect(ago("2026-11-21T11:57:00Z", now)).toBe("3 minutes ago");
  expect(ago("2026-11-21T09:00:00Z", now)).toBe("3 hours ago");
  expect(ago("2026-11-19T12:00:00Z", now)).toBe("2 days ago");
});
