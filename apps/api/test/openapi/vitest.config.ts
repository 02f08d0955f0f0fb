import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** `npm run check:openapi`: takes minutes, so the suite does not run it. */
export default defineConfig({
  test: {
    dir: import.meta.dirname,
    include: ["*.check.ts"],
    globalSetup: [
      fileURLToPath(new URL("../../../../packages/testkit/src/postgres-setup.ts", import.meta.url)),
    ],
    testTimeout: 7_200_000,
    hookTimeout: 600_000,
    disableConsoleIntercept: true,
  },
});
