import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    dir: import.meta.dirname,
    // One product, one machine: files take turns.
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 240_000,
  },
});
