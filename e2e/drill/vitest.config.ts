import { defineConfig } from "vitest/config";

/** The drills' own configuration: neither `test:kafka` nor `npm test` runs them. */
export default defineConfig({
  test: {
    dir: import.meta.dirname,
    testTimeout: 60_000,
    // The scenarios run before the tests, which only look at the results.
    hookTimeout: 900_000,
  },
});
