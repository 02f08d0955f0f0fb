import { describe, expect, it } from "vitest";
import { tallyOf } from "./tally.ts";

describe("tallyOf", () => {
  it("reads vitest's summary, with and without turbo's prefix", () => {
    const text = [
      " Test Files  2 passed (2)",
      "      Tests  1 failed | 12 passed | 2 skipped (15)",
      "@millrace/domain:test:unit:       Tests  3 passed (3)",
    ].join("\n");
    expect(tallyOf(text)).toEqual({ passed: 15, failed: 1, skipped: 2 });
  });

  it("reads every summary of a cargo workspace", () => {
    const text = [
      "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s",
      "@millrace/dataplane:test:unit: test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured",
    ].join("\n");
    expect(tallyOf(text)).toEqual({ passed: 7, failed: 3, skipped: 1 });
  });

  it("reads Playwright's closing lines and counts what passed on the second try as passed", () => {
    expect(tallyOf("  1 flaky\n    [light] › a.spec.ts:3:1 › x\n  4 passed (9.1s)")).toEqual({
      passed: 5,
      failed: 0,
      skipped: 0,
    });
  });

  it("finds nothing where nothing was run", () => {
    expect(tallyOf("No test files found, exiting with code 0")).toEqual({
      passed: 0,
      failed: 0,
      skipped: 0,
    });
  });
});
