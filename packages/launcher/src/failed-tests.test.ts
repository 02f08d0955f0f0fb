import { expect, test } from "vitest";
import { failedTestsOf } from "./failed-tests.ts";

test("every runner's failed tests are named with their package", () => {
  const output = `
@millrace/api:test:integration:  ✓ test/topics.test.ts (12 tests) 3456ms
@millrace/api:test:integration:  FAIL  test/keys.test.ts > keys > a key expires
@millrace/api:test:integration: AssertionError: expected 401 to be 200
@millrace/core:test:integration: ⎯⎯⎯⎯⎯ Uncaught Exception ⎯⎯⎯⎯⎯
@millrace/core:test:integration: error: terminating connection
@millrace/dataplane:test:unit: test log::trims ... ok
@millrace/dataplane:test:unit: test log::survives_a_kill ... FAILED
@millrace/terraform-provider:test:unit: --- FAIL: TestCluster (0.03s)
@millrace/e2e:test:console:   1) [light] › console/journey.spec.ts:12:3 › a cluster ─────
@millrace/e2e:test:console:   1) [light] › console/journey.spec.ts:12:3 › a cluster ─────
`;
  expect(failedTestsOf(output)).toEqual([
    "@millrace/api test/keys.test.ts > keys > a key expires: AssertionError: expected 401 to be 200",
    "@millrace/core Uncaught Exception: error: terminating connection",
    "@millrace/dataplane log::survives_a_kill",
    "@millrace/terraform-provider TestCluster",
    "@millrace/e2e [light] › console/journey.spec.ts:12:3 › a cluster",
  ]);
});

test("a run without a failure names nothing", () => {
  expect(failedTestsOf("@millrace/api:test:unit:  Tests  12 passed (12)\n")).toEqual([]);
});
