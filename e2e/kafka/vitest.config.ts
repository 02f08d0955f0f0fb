import { join } from "node:path";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    dir: import.meta.dirname,
    // One broker, one machine: files that load it take turns.
    fileParallelism: false,
    // Named in the suite's result where the first try failed: see CONTRIBUTING.md.
    retry: 1,
    reporters: ["default", join(import.meta.dirname, "../../packages/testkit/src/second-try.ts")],
    testTimeout: 240_000,
    hookTimeout: 120_000,
  },
});
