import { expect, test } from "vitest";
import { partsOf, slowest } from "./slowest.ts";

const OUTPUT = `
@millrace/core:test:unit:  ✓ src/engine/lease.test.ts (9 tests) 1204ms
@millrace/core:test:unit:  ❯ src/page.test.ts (3 tests | 1 failed) 88ms
@millrace/dataplane:test:unit:      Running unittests src/lib.rs (target/debug/deps/millrace_wal-8ed55e97366e0103)
@millrace/dataplane:test:unit: test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 22.78s
`;

test("files and programs are named with their stage and package", () => {
  expect(partsOf("tests", OUTPUT)).toEqual([
    { name: "tests: @millrace/core src/engine/lease.test.ts", seconds: 1.204 },
    { name: "tests: @millrace/core src/page.test.ts", seconds: 0.088 },
    { name: "tests: millrace_wal", seconds: 22.78 },
  ]);
});

test("the slowest come first", () => {
  const parts = partsOf("tests", OUTPUT);
  expect(slowest(parts, 2).map(({ seconds }) => seconds)).toEqual([22.78, 1.204]);
});
