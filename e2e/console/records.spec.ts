/** Records of a topic in a real browser: produced, followed, paused, searched, looked at. */
import { Producer, stringSerializers } from "@platformatic/kafka";
import { expect, type Locator, type Page } from "@playwright/test";
import {
  createCluster,
  createTopic,
  credentials,
  deleteCluster,
  type TestCluster,
  unique,
} from "../product.ts";
import { test } from "./first-try-fails.ts";
import { checkPage, complaintsOf } from "./page-check.ts";
import { signIn } from "./sign-in.ts";

test.use({ baseURL: credentials.consoleUrl });

const TOPIC = "orders";
/** Past what JavaScript's numbers hold. */
const LARGE_ID = "9007199254740993";

let cluster: TestCluster;

test.beforeAll(async () => {
  cluster = await createCluster(unique("records"));
  await createTopic(cluster.id, TOPIC, 3);
});

test.afterAll(async () => {
  await deleteCluster(cluster.id);
});

test("produce a record, follow a topic, pause, search and look at a record", async ({ page }) => {
  const complaints = complaintsOf(page);
  await signIn(page);

  await test.step("a topic's page is reached from the list, and says that it is empty", async () => {
    await page.goto(`/clusters/${cluster.id}/topics`);
    await page.getByRole("link", { name: TOPIC, exact: true }).click();
    await expect(page.getByRole("heading", { name: "No records" })).toBeVisible();
    await checkPage(page, "records-empty");
  });

  await test.step("a record is produced with key, header and partition", async () => {
    await page.getByRole("button", { name: "Produce record" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Partition").selectOption("1");
    await dialog.getByLabel("Key", { exact: true }).selectOption("text");
    await dialog.getByLabel("Key, content").fill("customer-7");
    await dialog.getByLabel("Value", { exact: true }).selectOption("json");
    await dialog.getByLabel("Value, content").fill("{");
    await dialog.getByRole("button", { name: "Produce" }).click();
    await expect(dialog.getByText(/Not valid JSON/)).toBeVisible();
    await dialog.getByLabel("Value, content").fill(`{"id":${LARGE_ID},"total":12.50}`);
    await dialog.getByRole("button", { name: "Add header" }).click();
    await dialog.getByLabel("Header 1, name").fill("trace");
    await dialog.getByLabel("Header 1, value").fill("abc");
    await checkPage(page, "produce-record");
    await dialog.getByRole("button", { name: "Produce" }).click();
    await expect(page.getByText("Produced to partition 1, offset 0.")).toBeVisible();
    await expect(row(page, "1:0")).toContainText("customer-7");
  });

  await test.step("its detail is opened with the keyboard, and no digit is lost", async () => {
    const opener = page.getByRole("button", { name: /partition 1, offset 0$/ });
    await opener.focus();
    await page.keyboard.press("Enter");
    const detail = page.getByRole("dialog");
    await expect(detail.locator("[data-part=value]")).toContainText(`"id": ${LARGE_ID}`);
    await expect(detail.getByRole("cell", { name: "trace", exact: true })).toBeVisible();
    await detail.getByText("Hex", { exact: true }).last().click();
    await expect(detail.locator("[data-part=value]")).toContainText("7b 22 69 64 22");
    await checkPage(page, "record");
    await page.keyboard.press("Escape");
    await expect(detail).toBeHidden();
    await expect(opener).toBeFocused();
  });

  const tail = page.locator("[data-tail]");
  await test.step("the live tail shows what the console and other clients produce", async () => {
    await page.getByRole("button", { name: "Live tail" }).click();
    await expect(tail).toHaveText("Live");
    await page.getByRole("button", { name: "Produce record" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Partition").selectOption("2");
    await dialog.getByLabel("Value, content").fill("from the console");
    await dialog.getByRole("button", { name: "Produce" }).click();
    await expect(row(page, "2:0")).toContainText("from the console");
    await produce(0, 100, "first");
    await expect(received(page)).toContainText("101 records received");
    await expect(row(page, "0:99")).toContainText("first 99");
    await checkPage(page, "records-live");
  });

  await test.step("a paused tail shows nothing new, and misses nothing when it goes on", async () => {
    await page.getByRole("button", { name: "Pause tail" }).click();
    await expect(tail).toHaveText("Paused");
    await produce(0, 50, "second");
    await expect(received(page)).toContainText("101 records received");
    await checkPage(page, "records-paused");
    await page.getByRole("button", { name: "Resume tail" }).click();
    await expect(received(page)).toContainText("151 records received");
    await expect(row(page, "0:149")).toContainText("second 49");
    await expect(row(page, "0:100")).toHaveCount(1);
    await page.getByRole("button", { name: "Stop tail" }).click();
    await expect(tail).toHaveCount(0);
  });

  await test.step("filters find records by key, header, text and partition", async () => {
    const filters = page.getByRole("form", { name: "Filters" });
    const search = () => filters.getByRole("button", { name: "Search" }).click();
    await filters.getByLabel("Key").fill("customer-7");
    await search();
    await expect(rows(page)).toHaveCount(1);
    await expect(row(page, "1:0")).toBeVisible();
    await filters.getByLabel("Key").fill("");
    await filters.getByLabel("Header").fill("trace=abc");
    await search();
    await expect(page).toHaveURL(/trace%3Dabc/);
    await expect(rows(page)).toHaveCount(1);
    await filters.getByLabel("Header").fill("trace=xyz");
    await search();
    await expect(page.getByRole("heading", { name: "No matching records" })).toBeVisible();
    await filters.getByLabel("Header").fill("");
    await filters.getByLabel("Text").fill("second 4");
    await search();
    await expect(rows(page)).toHaveCount(11);
    await expect(page).toHaveURL(/text=second/);
    await checkPage(page, "records-filtered");
    await page.reload();
    await expect(rows(page), "the view is part of the address").toHaveCount(11);
    await filters.getByLabel("Text").fill("");
    await filters.getByLabel("Start").selectOption("offset");
    await filters.getByLabel("Offset").fill("120");
    await search();
    await expect(filters.getByText("Choose one: offsets are per partition")).toBeVisible();
    await filters.getByLabel("Partition").selectOption("0");
    await search();
    await expect(rows(page).first()).toHaveAttribute("data-record", "0:120");
    await expect(rows(page)).toHaveCount(30);
  });

  await test.step("a live tail with a filter shows only what matches", async () => {
    await page.goto(`/clusters/${cluster.id}/topics/${TOPIC}?text=needle`);
    await expect(page.getByRole("heading", { name: "No matching records" })).toBeVisible();
    await page.getByRole("button", { name: "Live tail" }).click();
    await expect(tail).toHaveText("Live");
    await produce(0, 20, "hay");
    await produce(1, 1, "needle");
    await expect(rows(page)).toHaveCount(1);
    await expect(rows(page).first()).toContainText("needle 0");
    await page.getByRole("button", { name: "Stop tail" }).click();
  });

  await test.step("bytes and tombstones are shown as what they are", async () => {
    await page.goto(`/clusters/${cluster.id}/topics/${TOPIC}?partition=2`);
    await page.getByRole("button", { name: "Produce record" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Partition").selectOption("2");
    await dialog.getByLabel("Value", { exact: true }).selectOption("hex");
    await dialog.getByLabel("Value, content").fill("ff 00 01");
    await dialog.getByRole("button", { name: "Produce" }).click();
    await expect(row(page, "2:1")).toContainText("ff 00 01");
    await page.getByRole("button", { name: "Produce record" }).click();
    await dialog.getByLabel("Partition").selectOption("2");
    await dialog.getByLabel("Key", { exact: true }).selectOption("text");
    await dialog.getByLabel("Key, content").fill("gone");
    await dialog.getByLabel("Value", { exact: true }).selectOption("tombstone");
    await dialog.getByRole("button", { name: "Produce" }).click();
    await expect(row(page, "2:2").locator("[data-tombstone]")).toBeVisible();
    await checkPage(page, "records-bytes");
  });

  await test.step("the topic's settings are on its page", async () => {
    await page.getByRole("tab", { name: "Settings" }).last().click();
    await expect(page.locator("[data-setting='retention.ms']")).toBeVisible();
    await checkPage(page, "topic-settings");
  });

  await test.step("a topic that does not exist says so", async () => {
    await page.goto(`/clusters/${cluster.id}/topics/nothing`);
    await expect(page.getByRole("heading", { name: "Topic not found" })).toBeVisible();
  });

  expect(
    complaints.filter((text) => !text.includes("404")),
    "browser's complaints",
  ).toEqual([]);
});

function rows(page: Page): Locator {
  return page.locator("[data-record]");
}

function row(page: Page, place: string): Locator {
  return page.locator(`[data-record="${place}"]`);
}

function received(page: Page): Locator {
  return page.getByRole("status").filter({ hasText: "received" });
}

/** `first 0`, `first 1` and so on, to one partition, as any client produces them. */
async function produce(partition: number, count: number, word: string): Promise<void> {
  const producer = new Producer({
    clientId: "records-journey",
    bootstrapBrokers: [cluster.bootstrap],
    serializers: stringSerializers,
  });
  await producer.send({
    messages: Array.from({ length: count }, (_, index) => ({
      topic: TOPIC,
      partition,
      value: `${word} ${index}`,
    })),
  });
  await producer.close();
}
