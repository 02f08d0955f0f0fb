import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { DriftBody } from "./drift-card.tsx";

const DRIFT = {
  cluster_id: "clu_x",
  checked_at: null,
  digest: null,
  operation_id: null,
  plan: null,
} as const;

test("without drift, the badge says so and nothing repeats it", () => {
  const api = new FakeApi();
  api.signIn("owner");
  const textOf = (status: "in_sync" | "unknown") =>
    api.render(<DriftBody drift={{ ...DRIFT, status }} />).replaceAll(/<style.*?<\/style>/gs, "");
  expect(textOf("in_sync")).not.toContain("drift");
  expect(textOf("unknown")).toContain("A check finds changes");
});
