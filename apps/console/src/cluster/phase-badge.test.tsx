import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { PhaseBadge } from "./phase-badge.tsx";

test("a state keeps its word in a narrow table", () => {
  const html = new FakeApi().render(<PhaseBadge phase="DEGRADED" />);
  expect(html).toContain("Degraded");
  expect(html).toContain("min-width:max-content");
});
