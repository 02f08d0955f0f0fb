/** A cluster of several brokers in a real browser: created, scaled out and in, restarted, and one broker lost, under load. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, type Page } from "@playwright/test";
import { createTopic, credentials, deleteCluster, home, rest, unique } from "../product.ts";
import { produceSteadily } from "../steady-producer.ts";
import { test } from "./first-try-fails.ts";
import { checkPage, complaintsOf } from "./page-check.ts";
import { signIn } from "./sign-in.ts";

test.use({ baseURL: credentials.consoleUrl });
test.setTimeout(480_000);

const TOPIC = "orders";
const PARTITIONS = 12;
/** Changes of several brokers, one after the other. */
const CHANGE_MS = 150_000;

let clusterId: string | undefined;

test.afterAll(async () => {
  if (clusterId) await deleteCluster(clusterId);
});

test("three brokers, five, three again, a restart of all and one that hangs, while a client produces", async ({
  page,
}) => {
  const complaints = complaintsOf(page);
  const name = unique("several");
  await signIn(page);

  await test.step("a cluster of three brokers is created", async () => {
    await page.goto("/clusters");
    await page.getByRole("link", { name: "Create cluster" }).first().click();
    await page.getByLabel("Name").fill(name);
    await page.getByRole("textbox", { name: "Brokers" }).fill("3");
    await checkPage(page, "create-cluster-several");
    await page.getByRole("button", { name: "Create cluster" }).click();
    await expect(page.locator("[data-phase=RUNNING]")).toBeVisible({ timeout: CHANGE_MS });
    clusterId = /clusters\/(clu_\w+)/.exec(page.url())?.[1];
  });
  const id = clusterId as string;
  await createTopic(id, TOPIC, PARTITIONS);
  const { body } = await rest("GET", `/v1/clusters/${id}`);
  const load = await produceSteadily(body.status.endpoints[0].bootstrap_servers, TOPIC, PARTITIONS);

  await test.step("each broker leads a part of the partitions, in a zone of its own", async () => {
    await page.getByRole("tab", { name: "Brokers" }).click();
    for (const [broker, zone] of ["local-a", "local-b", "local-c"].entries()) {
      await expect(brokerRow(page, broker + 1)).toContainText("Active");
      await expect(brokerRow(page, broker + 1)).toContainText(zone);
    }
    await checkPage(page, "brokers");
  });

  await test.step("two are added", async () => {
    await scale(page, 5);
    await expect(brokerRow(page, 5)).toContainText("Active");
  });

  await test.step("two are removed, and give theirs away first", async () => {
    await scale(page, 3);
    await expect(brokerRow(page, 5)).toHaveCount(0);
    await expect(page.getByText("Node 5 left. Its write-ahead log is empty.")).toBeVisible();
  });

  await test.step("all are restarted, one at a time", async () => {
    await page.getByRole("button", { name: "Restart all" }).click();
    await checkPage(page, "restart-all-brokers");
    await page.getByRole("button", { name: "Restart all brokers" }).click();
    await expect(page.getByRole("dialog")).toHaveCount(0);
    await settled(id);
  });

  await test.step("one hangs, the others take over, and it comes back once it is killed", async () => {
    // Only killed, it would be restarted before its lease runs out.
    const file = join(home, "clusters", id, "broker-2/broker.pid");
    const { pid } = JSON.parse(readFileSync(file, "utf8"));
    process.kill(pid, "SIGSTOP");
    await expect(page.getByText(/The lease of node 2 ran out/)).toBeVisible({ timeout: 30_000 });
    await expect(page.getByText(/takes over the write-ahead log of node 2/)).toBeVisible();
    await checkPage(page, "brokers-after-failover");
    process.kill(pid, "SIGKILL");
    await expect(brokerRow(page, 2)).toContainText("Active", { timeout: 60_000 });
  });

  const { acknowledged, failed, records } = await load.stop();
  expect(failed, "what the application was told").toEqual([]);
  expect(records, "records of the topic").toBe(acknowledged);
  expect(complaints, "what the browser complained about").toEqual([]);
});

function brokerRow(page: Page, broker: number) {
  return page
    .getByRole("region", { name: "Brokers" })
    .getByRole("row")
    .filter({ has: page.getByRole("cell", { name: `${broker}`, exact: true }).first() });
}

async function scale(page: Page, brokers: number): Promise<void> {
  await page.getByRole("link", { name: "Change the number" }).click();
  await page.getByRole("textbox", { name: "Brokers" }).fill(`${brokers}`);
  await page.getByRole("button", { name: "Review change" }).click();
  await checkPage(page, `scale-to-${brokers}`);
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await settled(/clusters\/(clu_\w+)/.exec(page.url())?.[1] as string);
  await page.getByRole("tab", { name: "Brokers" }).click();
}

/** Waits until no operation is under way, and the cluster runs. */
async function settled(id: string): Promise<void> {
  const states = async () => {
    const { body } = await rest("GET", `/v1/operations?cluster_id=${id}`);
    const phases = body.items.map((operation: { phase: string }) => operation.phase);
    expect(phases, "operations").not.toContain("FAILED");
    return phases.every((phase: string) => phase === "SUCCEEDED");
  };
  await expect.poll(states, { timeout: CHANGE_MS }).toBe(true);
}
