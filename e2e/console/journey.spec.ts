/** A tenant's main job, in a real browser and nowhere else. */
import { execFileSync } from "node:child_process";
import { Consumer, Producer, stringDeserializers, stringSerializers } from "@platformatic/kafka";
import { expect, type Page } from "@playwright/test";
import { credentials, unique } from "../product.ts";
import { test } from "./first-try-fails.ts";
import { checkPage, complaintsOf } from "./page-check.ts";
import { readSlowly } from "./slow-reader.ts";

test.use({ baseURL: credentials.consoleUrl });

const LOAD_MS = 14_000;
const SEND_EVERY_MS = 25;
/** Enough to be a rate of some hundred KiB/s, even over the longest step between points. */
const BURST_BYTES = 4_000_000;
/** Beyond what a reader may be behind and still count as at the tail, for as long as it is watched. */
const BACKLOG_BYTES = 20_000_000;

test("sign in, create a cluster, connect, watch it work, delete it", async ({ page }) => {
  const complaints = complaintsOf(page);
  const name = unique("journey");

  await test.step("a visitor is sent to sign in, and a wrong password is refused", async () => {
    await page.goto("/clusters");
    await expect(page).toHaveURL(/sign-in/);
    expect((await page.request.get("/favicon.ico")).ok(), "an icon by its usual name").toBe(true);
    await page.getByLabel("Email").fill(credentials.email);
    await page.getByRole("textbox", { name: "Password" }).fill("not the password");
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("alert").filter({ hasText: "Wrong" })).toBeVisible();
    await checkPage(page, "sign-in");
  });

  await test.step("pages are sent compressed", async () => {
    const page_ = await page.request.get("/sign-in", { headers: { "accept-encoding": "gzip" } });
    expect(page_.headers()["content-encoding"]).toBe("gzip");
  });

  await test.step("the right one leads to the clusters", async () => {
    await page.getByRole("textbox", { name: "Password" }).fill(credentials.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("heading", { name: "Clusters", exact: true })).toBeVisible();
  });

  await test.step("a cluster is created and its steps are seen", async () => {
    await page.getByRole("link", { name: "Create cluster" }).first().click();
    await page.getByLabel("Name").fill("Not A Name");
    await page.getByRole("button", { name: "Create cluster" }).click();
    await expect(page.getByText("Use only lowercase letters").first()).toBeVisible();
    await page.getByLabel("Name").fill(name);
    await checkPage(page, "create-cluster");
    await page.getByRole("button", { name: "Review plan" }).click();
    await expect(page.locator("[data-figure=Plan]")).toHaveText(/\d+ to create/);
    await expect(page.locator("[data-figure=Policy]")).toHaveText("All checks passed");
    await checkPage(page, "create-cluster-plan");
    await page.getByRole("button", { name: "Back" }).click();
    await page.getByRole("button", { name: "Create cluster" }).click();
    await expect(page.getByRole("region", { name: "Creating the cluster" })).toBeVisible();
    await checkPage(page, "cluster-being-created");
    await expect(page.locator("[data-phase=RUNNING]")).toBeVisible({ timeout: 60_000 });
  });

  const bootstrap = (await page.locator("[data-bootstrap]").first().textContent()) as string;

  await test.step("a topic is created", async () => {
    await page.getByRole("tab", { name: "Topics" }).click();
    await page.getByRole("button", { name: "Create topic" }).click();
    await page.getByLabel("Name").fill("orders");
    await page.getByLabel("Partitions").fill("4");
    await checkPage(page, "create-topic");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await expect(page.getByRole("cell", { name: "orders", exact: true })).toBeVisible();
    await checkPage(page, "topics");
  });

  await test.step("a topic gets partitions, and a setting of its own", async () => {
    await page.getByRole("button", { name: "Edit topic orders" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Partitions").fill("3");
    await expect(dialog.getByText("Enter 4 or more: partitions cannot be reduced")).toBeVisible();
    await dialog.getByLabel("Partitions").fill("6");
    await dialog.getByRole("button", { name: "Change retention.ms" }).click();
    await dialog.getByLabel("retention.ms, new value").fill("86400000");
    await checkPage(page, "change-topic");
    await dialog.getByRole("button", { name: "Save" }).click();
    await expect(page.getByRole("row", { name: /orders/ })).toContainText("6");
    await page.getByRole("button", { name: "Edit topic orders" }).click();
    await expect(dialog.locator("[data-setting='retention.ms']")).toContainText(/custom.*86400000/);
    await dialog.getByRole("button", { name: "Cancel" }).click();
  });

  await test.step("the kcat snippet works when pasted", async () => {
    await page.getByRole("tab", { name: "Connect" }).click();
    await page.getByRole("tab", { name: "kcat" }).click();
    const code = (await page.locator("[data-snippet=code]").textContent()) as string;
    await checkPage(page, "connect");
    test.skip(!process.env.MILLRACE_KCAT, "no kcat on this machine");
    expect(execFileSync("sh", ["-c", code], { encoding: "utf8" })).toContain("hello from kcat");
  });

  await test.step("a client's throughput, latencies and lag appear", async () => {
    await page.getByRole("tab", { name: "Overview" }).click();
    await load(bootstrap);
    await expect(tile(page, "In")).toContainText("KiB/s");
    await expect(tile(page, "Out")).toContainText("KiB/s");
    await expect(tile(page, "Produce p99")).toContainText("ms");
    await expect(tile(page, "Fetch p99")).toContainText("ms");
    await checkPage(page, "cluster");
    await page.getByRole("tab", { name: "Consumer groups" }).click();
    await page.getByText("billing").click();
    await expect(page.getByRole("cell", { name: "orders-0" })).toBeVisible();
    await checkPage(page, "consumer-groups");
  });

  await test.step("the list shows it with its throughput", async () => {
    await page.goto("/clusters");
    const row = page.getByRole("row", { name: new RegExp(name) });
    // The load before may have ended a while ago, when the machine is busy.
    await Promise.all([write(bootstrap, BURST_BYTES), expect(row).toContainText(/[KM]iB\/s/)]);
    await checkPage(page, "clusters");
  });

  await test.step("knobs are turned while the cluster runs, and a value too large is not taken", async () => {
    await page.getByRole("link", { name }).click();
    await page.getByRole("tab", { name: "Tuning" }).click();
    const value = page.locator("[data-value=block_cache_bytes]");
    await expect(value).toHaveText("128 MiB");
    await page.getByRole("button", { name: "Change Block cache" }).click();
    const field = page.getByLabel("Block cache, new value");
    await field.fill("4");
    await expect(field).toHaveAccessibleDescription(/Enter 16 MiB or more/);
    // Beside another change the API validates: both caches together are too much for the size.
    await field.fill("600");
    await page.getByRole("button", { name: "Change Log cache" }).click();
    await page.getByLabel("Log cache, new value").fill("200");
    await page.getByRole("button", { name: "Preview" }).click();
    await expect(field).toHaveAccessibleDescription(
      "Block cache must be at most 568 MiB, not 600 MiB.",
    );
    await checkPage(page, "tuning-refused");
    // So small that what the next step reads has to come back from object storage.
    await field.fill("96");
    await page.getByLabel("Log cache, new value").fill("16");
    await page.getByRole("button", { name: "Change Upload threshold" }).click();
    await page.getByLabel("Upload threshold, new value").fill("4");
    await page.getByRole("button", { name: "Preview" }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog.locator("[data-change=block_cache_bytes]")).toHaveText(/128 MiB\s*96 MiB/);
    await checkPage(page, "tuning-preview");
    await dialog.getByRole("button", { name: "Apply" }).click();
    await expect(value).toHaveText("96 MiB");
    await expect(page.locator("[data-knob=block_cache_bytes] [data-applied]")).toBeVisible();
    const line = page.locator("[data-history='1']");
    await expect(line).toContainText(credentials.email);
    await expect(line.locator("[data-change=block_cache_bytes]")).toHaveText(/128 MiB\s*96 MiB/);
    await expect(line.locator("[data-change=wal_cache_bytes]")).toHaveText(/256 MiB\s*16 MiB/);
    await expect(line.locator("[data-result=applied]")).toBeVisible();
    await checkPage(page, "tuning");
  });

  await test.step("a group that reads behind is seen catching up", async () => {
    await page.getByRole("tab", { name: "Consumer groups" }).click();
    await page.getByText("billing").click();
    await write(bootstrap, BACKLOG_BYTES);
    const reader = await readSlowly(bootstrap, "archive", "orders");
    await page.getByRole("link", { name: "Catch-up details" }).click();
    await expect(page.getByRole("region", { name: "Partitions of billing" })).toBeVisible();
    const card = page.getByRole("region", { name: "Consumer group archive" });
    await expect(card.locator("[data-mode=catch_up]").first()).toBeVisible();
    await expect(card.locator("[data-eta]")).toContainText(/about \d+ (s|min)/);
    const bar = card.getByRole("progressbar");
    await expect(bar).toHaveAttribute("aria-valuetext", /[KM]iB · [\d,]+ records to go, about/);
    const done = async () => Number(await bar.getAttribute("aria-valuenow"));
    const before = await done();
    await expect.poll(done, "the bar moves").toBeGreaterThan(before);
    // All that it is assigned, including the two partitions that nobody has written to.
    await card.getByRole("button", { name: "6 partitions of archive" }).click();
    await expect(card.getByRole("cell", { name: "orders-3" })).toBeVisible();
    await expect(page.locator("[data-figure='Hit ratio']")).toHaveText(/%$/);
    await expect(page.locator("[data-figure='Fetched per byte delivered']")).toHaveText(/×$/);
    await checkPage(page, "catch-up");
    await reader.stop();
  });

  await test.step("it is paused, and resumed with what it held", async () => {
    await page.getByRole("tab", { name: "Overview" }).click();
    await page.getByRole("button", { name: "Pause" }).click();
    await checkPage(page, "pause");
    await page.getByRole("button", { name: "Pause cluster" }).click();
    await expect(page.locator("[data-phase=PAUSED]")).toBeVisible({ timeout: 30_000 });
    await expect(page.getByText("The cluster is paused")).toBeVisible();
    await checkPage(page, "cluster-paused");
    await page.getByRole("button", { name: "Resume" }).click();
    await expect(page.locator("[data-phase=RUNNING]")).toBeVisible({ timeout: 30_000 });
    await page.getByRole("tab", { name: "Topics" }).click();
    await expect(page.getByRole("cell", { name: "orders", exact: true })).toBeVisible();
  });

  await test.step("what was done to it is listed, with its log and its plan", async () => {
    await page.getByRole("tab", { name: "Operations" }).click();
    await expect(page.locator("[data-operation='cluster.pause']")).toContainText("done in");
    await checkPage(page, "operations");
    await page.getByRole("link", { name: "Pausing the cluster" }).click();
    await expect(page.locator("[data-log]").first()).toBeVisible();
    await page.getByRole("button", { name: "Plan" }).click();
    await expect(page.locator("[data-figure=Plan]")).toHaveText(/1 to delete/);
    await checkPage(page, "operation-plan");
    await page.getByRole("button", { name: "Close" }).click();
  });

  await test.step("an operation that does not exist says so", async () => {
    const { pathname } = new URL(page.url());
    await page.goto(`${pathname.replace(/operations\/.*/, "operations/op_unknown")}`);
    await expect(page.getByRole("heading", { name: "Operation not found" })).toBeVisible();
    await expect(page).toHaveTitle(`Operation · ${name} · Millrace`);
  });

  await test.step("an environment is created, renamed and deleted, one with clusters is not", async () => {
    await page.getByRole("link", { name: "Environments" }).click();
    await page.getByRole("button", { name: "Create environment" }).click();
    await page.getByRole("dialog").getByLabel("Name").fill(name);
    await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: `Rename environment ${name}` }).click();
    await page.getByRole("dialog").getByLabel("Name").fill(`${name}-2`);
    await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
    const made = page.locator(`[data-environment="${name}-2"]`);
    await expect(made).toBeVisible();
    await checkPage(page, "environments");
    await deleteEnvironment(page, `${name}-2`);
    await expect(made).toHaveCount(0);
    const used = page
      .locator("[data-environment]")
      .filter({ has: page.getByRole("link") })
      .first();
    const usedName = (await used.getAttribute("data-environment")) as string;
    await deleteEnvironment(page, usedName);
    await expect(page.getByRole("dialog").getByRole("alert")).toBeVisible();
    await checkPage(page, "environment-not-empty");
    await page.getByRole("button", { name: "Cancel" }).click();
    await expect(used).toBeVisible();
  });

  await test.step("an API key is created, shown once, and revoked", async () => {
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByRole("tab", { name: "API keys" }).click();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByLabel("Name").fill(name);
    await page.getByRole("combobox", { name: "Role" }).click();
    await page.getByRole("option", { name: /^Viewer/ }).click();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await expect(page.getByText("It is not shown again")).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(page.getByText("It is not shown again"), "Escape loses no secret").toBeVisible();
    await page.getByRole("button", { name: "Done" }).click();
    await checkPage(page, "api-keys");
    await page.getByRole("button", { name: `Revoke key ${name}` }).click();
    await page.getByLabel(`Type ${name} to confirm`).fill(name);
    await page.getByRole("button", { name: "Revoke key", exact: true }).click();
    await expect(page.getByRole("cell", { name, exact: true })).toHaveCount(0);
  });

  await test.step("the audit log shows who did that", async () => {
    await page.getByRole("link", { name: "Audit log" }).click();
    await expect(page.getByRole("heading", { name: "Audit log" })).toBeVisible();
    await page.getByRole("combobox", { name: "Changes of" }).click();
    await page.getByRole("option", { name: "API keys" }).click();
    const created = page.locator('[data-audit="apiKey.create"]').first();
    await expect(created).toContainText("Succeeded");
    await expect(page.locator('[data-audit="environment.create"]')).toHaveCount(0);
    await created.getByRole("button", { name: /^Details of event/ }).click();
    await expect(page.getByText("signed in by session")).toBeVisible();
    await checkPage(page, "audit-log");
    const download = page.waitForEvent("download");
    await page.getByRole("link", { name: "Export as NDJSON" }).click();
    expect((await download).suggestedFilename()).toBe("audit-events.ndjson");
  });

  await test.step("while it is protected it cannot be deleted", async () => {
    await page.goto("/clusters");
    await page.getByRole("link", { name }).click();
    await page.getByRole("tab", { name: "Settings" }).click();
    const remove = page.getByRole("button", { name: "Delete cluster" });
    const protection = page.getByRole("switch", { name: "Deletion protection" });
    await protection.click();
    await expect(page.getByRole("img", { name: "Deletion protection is on" })).toBeVisible();
    await expect(remove).toBeDisabled();
    await checkPage(page, "settings");
    await protection.click();
    await expect(remove).toBeEnabled();
  });

  await test.step("it is deleted after its name was typed", async () => {
    await page.getByRole("button", { name: "Delete cluster" }).click();
    const confirm = page.getByRole("dialog").getByRole("button", { name: "Delete cluster" });
    await page.getByLabel(`Type ${name} to confirm`).fill(`${name}x`);
    await expect(confirm).toBeDisabled();
    await expect(page.getByRole("radio", { name: /^Keep/ }), "kept by default").toBeChecked();
    await checkPage(page, "delete-cluster");
    await page.getByRole("radio", { name: "Delete now, permanently" }).check();
    await page.getByLabel(`Type ${name} to confirm`).fill(name);
    await confirm.click();
    await expect(page).toHaveURL(/\/clusters$/);
    await expect(page.getByRole("link", { name })).toHaveCount(0, { timeout: 30_000 });
  });

  expect(complaints, "what the browser complained about").toEqual([]);
});

async function deleteEnvironment(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: `Delete environment ${name}`, exact: true }).click();
  await page.getByLabel(`Type ${name} to confirm`).fill(name);
  await page.getByRole("button", { name: "Delete environment", exact: true }).click();
}

function tile(page: Page, label: string) {
  return page.locator(`[data-tile="${label}"]`);
}

/** A producer and a group that lags behind it, for as long as the charts need to show something. */
async function load(bootstrap: string): Promise<void> {
  const client = { clientId: "journey", bootstrapBrokers: [bootstrap] };
  const producer = new Producer({ ...client, serializers: stringSerializers });
  const consumer = new Consumer({
    ...client,
    groupId: "billing",
    deserializers: stringDeserializers,
  });
  const stream = await consumer.consume({ topics: ["orders"], mode: "earliest" });
  stream.resume();
  const value = "x".repeat(1_000);
  for (const until = Date.now() + LOAD_MS; Date.now() < until; ) {
    const messages = Array.from({ length: 20 }, (_, n) => ({
      topic: "orders",
      value,
      partition: n % 4,
    }));
    await producer.send({ messages });
    await new Promise((resolve) => setTimeout(resolve, SEND_EVERY_MS));
  }
  await stream.close();
  await consumer.close(true);
  await producer.close();
}

/** Gives those who read something to catch up with. */
async function write(bootstrap: string, bytes: number): Promise<void> {
  const producer = new Producer({
    clientId: "journey",
    bootstrapBrokers: [bootstrap],
    serializers: stringSerializers,
  });
  const value = "x".repeat(1_000);
  for (let sent = 0; sent < bytes; ) {
    const messages = Array.from({ length: 400 }, (_, n) => ({
      topic: "orders",
      value,
      partition: n % 4,
    }));
    await producer.send({ messages });
    sent += messages.length * value.length;
  }
  await producer.close();
}
