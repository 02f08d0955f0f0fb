/** The benchmark button, in a real browser: a load that is watched, kept and compared. */
import { expect, type Page } from "@playwright/test";
import {
  createCluster,
  credentials,
  deleteCluster,
  rest,
  type TestCluster,
  unique,
} from "../product.ts";
import { test } from "./first-try-fails.ts";
import { checkPage, complaintsOf } from "./page-check.ts";
import { signIn } from "./sign-in.ts";

test.use({ baseURL: credentials.consoleUrl });

const RATE_MIBPS = 4;
/** The shortest load. */
const SECONDS = 10;
/** The load, what comes before and after it, and a busy machine. */
const DONE_TIMEOUT_MS = 60_000;

let cluster: TestCluster;
test.beforeAll(async () => {
  cluster = await createCluster(unique("bench"));
});
test.afterAll(async () => {
  await deleteCluster(cluster.id);
});

test("a benchmark is run, watched, and compared with one after a tuning change", async ({
  page,
}) => {
  const complaints = complaintsOf(page);
  await signIn(page);
  await page.goto(`/clusters/${cluster.id}/benchmarks`);

  await test.step("its form says what it will do, and refuses what is out of bounds", async () => {
    await expect(page.getByText("No benchmarks yet")).toBeVisible();
    await checkPage(page, "bench-empty");
    await page.getByRole("button", { name: "Run benchmark" }).click();
    await page.getByLabel("Rate (MiB/s)").fill("65");
    await page.getByLabel("Duration (seconds)").fill(String(SECONDS));
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await expect(page.getByText("Enter 64 or less")).toBeVisible();
    await page.getByLabel("Rate (MiB/s)").fill(String(RATE_MIBPS));
    await expect(page.locator("[data-figure=consequences]")).toContainText(
      `Writes up to ${RATE_MIBPS * SECONDS} MiB in ${SECONDS} s`,
    );
    await checkPage(page, "bench-form");
  });

  await test.step("its load is watched as it runs", async () => {
    await page.getByRole("button", { name: "Run", exact: true }).click();
    const running = page.getByRole("region", { name: "Running benchmark" });
    await expect(running).toBeVisible();
    const chart = running.getByRole("img", { name: /^Throughput\. Produced: now/ });
    await expect(chart).toBeVisible({ timeout: 30_000 });
    expect(await benchmarkTopics(), "its topic").toHaveLength(1);
    await expect(page.getByRole("button", { name: "Run benchmark" })).toBeDisabled();
    await page.waitForTimeout(4_000);
    await checkPage(page, "bench-running");
  });

  await test.step("it leaves figures, and no topic", async () => {
    await expectDone(page, 1);
    expect(await benchmarkTopics()).toEqual([]);
  });

  await test.step("the next one says what was tuned before it", async () => {
    const tuned = await rest("PATCH", `/v1/clusters/${cluster.id}/tuning`, {
      block_cache_bytes: 64 * 1024 ** 2,
    });
    expect(tuned.status).toBe(200);
    await page.getByRole("button", { name: "Run benchmark" }).click();
    // The same load is offered: only such figures can be compared.
    await expect(page.getByLabel("Rate (MiB/s)")).toHaveValue(String(RATE_MIBPS));
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await expect(page.getByRole("region", { name: "Running benchmark" })).toBeVisible();
  });

  await test.step("a report is read, while the next load runs", async () => {
    await page.getByRole("row", { name: /Done/ }).getByRole("link", { name: "Produce" }).click();
    await expect(page.locator("[data-tile='Produce p99']")).toHaveText(/\d.* ms|\d.* s/);
    await expect(page.locator("[data-tile=Produced]")).toHaveText(/MiB\/s/);
    await expect(page.locator("canvas")).toHaveCount(2);
    await checkPage(page, "bench-report");
    await page.getByRole("link", { name: "All benchmarks" }).click();
  });

  await test.step("its row names the change", async () => {
    await expectDone(page, 2);
    const newest = page.locator("tr[data-benchmark=SUCCEEDED]").first();
    await expect(newest.locator("[data-change=block_cache_bytes]")).toContainText("64 MiB");
    await expect(page.getByRole("region", { name: "Tuning history" })).toContainText("Block cache");
  });

  await test.step("two are compared, side by side and on one axis", async () => {
    const boxes = page.getByRole("checkbox");
    await boxes.nth(0).check();
    await boxes.nth(1).check();
    await checkPage(page, "bench-list");
    await page.getByRole("link", { name: "Compare" }).click();
    await expect(page.locator("[data-compared=Produced]")).toContainText("MiB/s");
    await expect(page.locator("[data-compared='Produce p99']")).toContainText("ms");
    const overlaid = page.getByRole("img", { name: /^Produced\. A: .* B: / });
    await expect(overlaid.locator("canvas")).toBeVisible();
    await expect(page.getByRole("region", { name: "Tuning" })).toContainText("Block cache");
    await checkPage(page, "bench-compare");
  });

  await test.step("a load is cancelled, and its topic is gone", async () => {
    const { status } = await rest("POST", `/v1/clusters/${cluster.id}/benchmarks`, {
      ...{ workload: "catch_up", duration_seconds: 120, bytes_per_second: 1024 ** 2 },
    });
    expect(status).toBe(202);
    await page.getByRole("link", { name: "All benchmarks" }).click();
    const running = page.getByRole("region", { name: "Running benchmark" });
    await expect(running.getByRole("img", { name: /^Throughput\. Produced: now/ })).toBeVisible();
    await running.getByRole("button", { name: "Cancel operation" }).click();
    await expect(page.locator("tr[data-benchmark=CANCELLED]")).toBeVisible({ timeout: 30_000 });
    expect(await benchmarkTopics()).toEqual([]);
  });

  expect(complaints, "what the browser complained about").toEqual([]);
});

async function expectDone(page: Page, count: number): Promise<void> {
  const done = page.locator("tr[data-benchmark=SUCCEEDED]");
  await expect(done).toHaveCount(count, { timeout: DONE_TIMEOUT_MS });
}

/** Names of topics that benchmarks have now. */
async function benchmarkTopics(): Promise<string[]> {
  const { body } = await rest("GET", `/v1/clusters/${cluster.id}/topics`);
  const names: string[] = body.items.map((topic: { name: string }) => topic.name);
  return names.filter((name) => name.startsWith("millrace-benchmark-"));
}
