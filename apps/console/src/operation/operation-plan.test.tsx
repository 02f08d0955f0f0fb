import type { ChangePlan } from "@millrace/contract";
import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { operation } from "./operation.fixture.ts";
import { Approve } from "./operation-plan.tsx";

function footer(recovery: Partial<ChangePlan["recovery"]> | null): string {
  const api = new FakeApi();
  api.signIn("admin");
  const plan = { digest: "d", recovery } as ChangePlan;
  return api.render(
    <Approve operation={operation({ phase: "WAITING" })} plan={plan} onDone={() => {}} />,
  );
}

test("the button says what is approved, and a loss is accepted in red", () => {
  expect(footer(null)).toContain("Approve plan");
  expect(footer({ missing_partitions: 0 })).toMatch(/>Recover</);
  const loss = footer({ missing_partitions: 2 });
  expect(loss).toContain("Recover and accept the loss");
  expect(loss).toContain("--mantine-color-red-filled");
  expect(footer(null)).not.toContain("--mantine-color-red-filled");
});

test("the footer stays in sight however long the plan is", () => {
  expect(footer(null)).toContain("position:sticky");
  expect(footer(null)).toContain("Cancel");
});
