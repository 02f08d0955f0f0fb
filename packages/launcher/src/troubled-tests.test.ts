import { expect, test } from "vitest";
import { troubledTestsOf } from "./troubled-tests.ts";

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
@millrace/e2e:test:console:   1) [light] › console/journey.spec.ts:12:3 › a cluster › a step ─────
@millrace/e2e:test:console: 
@millrace/e2e:test:console:     Error: operations: serious accessibility faults
@millrace/e2e:test:console: 
@millrace/e2e:test:console:     - Array []
@millrace/e2e:test:console:     + Array [
@millrace/e2e:test:console:     +   "document-title: html",
@millrace/e2e:test:console:     + ]
@millrace/e2e:test:console:   1 failed
@millrace/e2e:test:console:     [light] › console/journey.spec.ts:12:3 › a cluster ─────
`;
  expect(troubledTestsOf(output)).toEqual({
    failed: [
      "@millrace/api test/keys.test.ts > keys > a key expires: AssertionError: expected 401 to be 200",
      "@millrace/core Uncaught Exception: error: terminating connection",
      "@millrace/dataplane log::survives_a_kill",
      "@millrace/terraform-provider TestCluster",
      '@millrace/e2e [light] › console/journey.spec.ts:12:3 › a cluster › a step: operations: serious accessibility faults "document-title: html",',
    ],
    unstable: [],
  });
});

test("tests that fail with the same error have it each", () => {
  const output = `
 FAIL  src/watch.test.ts > access > ends
 FAIL  src/watch.test.ts > access > ends again
AssertionError: expected false to be true
`;
  expect(troubledTestsOf(output).failed).toEqual([
    "src/watch.test.ts > access > ends: AssertionError: expected false to be true",
    "src/watch.test.ts > access > ends again: AssertionError: expected false to be true",
  ]);
});

test("a test that passes on its second try is unstable, with the error of the first", () => {
  const output = `
@millrace/api:test:integration:  UNSTABLE  test/keys.test.ts > keys > a key expires
@millrace/api:test:integration: expected 401 to be 200
@millrace/e2e:test:console:   1) [dark] › console/quotas.spec.ts:9:1 › quotas ─────
@millrace/e2e:test:console: 
@millrace/e2e:test:console:     Error: expect(locator).toBeVisible() failed
@millrace/e2e:test:console:   2) [dark] › console/people.spec.ts:9:1 › people ─────
@millrace/e2e:test:console:   1 failed
@millrace/e2e:test:console:     [dark] › console/people.spec.ts:9:1 › people ─────
@millrace/e2e:test:console:   1 flaky
@millrace/e2e:test:console:     [dark] › console/quotas.spec.ts:9:1 › quotas ─────
@millrace/e2e:test:console:   14 passed (4.1m)
`;
  expect(troubledTestsOf(output)).toEqual({
    failed: ["@millrace/e2e [dark] › console/people.spec.ts:9:1 › people"],
    unstable: [
      "@millrace/api test/keys.test.ts > keys > a key expires: expected 401 to be 200",
      "@millrace/e2e [dark] › console/quotas.spec.ts:9:1 › quotas: expect(locator).toBeVisible() failed",
    ],
  });
});

test("a run without a failure names nothing", () => {
  const output = "@millrace/api:test:unit:  Tests  12 passed (12)\n";
  expect(troubledTestsOf(output)).toEqual({ failed: [], unstable: [] });
});
