import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/**
 * For every package's integration tests: `vitest run --config ../testkit/integration.config.ts`.
 * One PostgreSQL serves the run; each test file takes a database of its own from it.
 */
const firstTryFails = fileURLToPath(new URL("./src/first-try-fails.ts", import.meta.url));

export default defineConfig({
  test: {
    dir: "test",
    setupFiles: process.env.MILLRACE_FIRST_TRY_FAILS === "1" ? [firstTryFails] : [],
    globalSetup: [fileURLToPath(new URL("./src/postgres-setup.ts", import.meta.url))],
    // Named in the suite's result where the first try failed: see CONTRIBUTING.md.
    retry: 1,
    reporters: ["default", fileURLToPath(new URL("./src/second-try.ts", import.meta.url))],
    testTimeout: 240_000,
    hookTimeout: 120_000,
  },
});
