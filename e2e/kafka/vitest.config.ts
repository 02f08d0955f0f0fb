import { join } from "node:path";
import { defineConfig } from "vitest/config";

const testkit = join(import.meta.dirname, "../../packages/testkit/src");

export default defineConfig({
  test: {
    dir: import.meta.dirname,
    setupFiles:
      process.env.MILLRACE_FIRST_TRY_FAILS === "1" ? [join(testkit, "first-try-fails.ts")] : [],
    // One broker, one machine: files that load it take turns.
    fileParallelism: false,
    // Named in the suite's result where the first try failed: see CONTRIBUTING.md.
    retry: 1,
    reporters: ["default", join(testkit, "second-try.ts")],
    testTimeout: 240_000,
    hookTimeout: 120_000,
  },
});
