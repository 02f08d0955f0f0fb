import { join } from "node:path";
import { defineConfig } from "@playwright/test";

const chromium = process.env.MILLRACE_CHROMIUM;

/** `npm run drill:tuning`: it takes minutes of load on a machine that does nothing else. */
const TUNING = "tuning.spec.ts";

export default defineConfig({
  testDir: import.meta.dirname,
  outputDir: join(import.meta.dirname, "../../test-results/console"),
  reporter: "list",
  // One product, one browser at a time: the machine is small and the charts are live.
  workers: 1,
  // Named in the suite's result where the first try failed: see CONTRIBUTING.md.
  retries: 1,
  timeout: 300_000,
  expect: { timeout: 15_000 },
  use: {
    viewport: { width: 1360, height: 860 },
    // Screenshots of each step take longer than the steps; the failed page's is enough.
    screenshot: "only-on-failure",
    trace: { mode: "retain-on-first-failure", screenshots: false },
    launchOptions: {
      ...(chromium ? { executablePath: chromium } : {}),
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
      ],
    },
  },
  projects: [
    { name: "journeys", testIgnore: TUNING },
    { name: "tuning", testMatch: TUNING },
  ],
});
