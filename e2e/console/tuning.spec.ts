/** Tuning under load, in a real browser: what a change does to consumers that catch up and to a producer beside them. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Consumer } from "@platformatic/kafka";
import { expect, type Locator, type Page } from "@playwright/test";
import {
  createCluster,
  createTopic,
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
// Rates are waited for, and the cause of a lag is named after a minute.
test.setTimeout(480_000);

const MIB = 1024 ** 2;
const program =
  process.env.MILLRACE_BROKER_BIN ??
  join(import.meta.dirname, "../../dataplane/target/release/millrace");

const TOPIC = "orders";
const PARTITIONS = 64;
/** Three services that have been down, and read what they have missed. */
const GROUPS = ["archive", "billing", "search"];
const RECORD_BYTES = 8 * 1024;
/** More than the groups read while they are watched. */
const BACKLOG_BYTES = 512 * MIB;
const PRODUCE_RATE = MIB;
/** An eighth of a block: a block that is not kept between two reads is fetched up to eight times. */
const FETCH_BYTES = 64 * 1024;

/**
 * The smallest caches: the readers are in the middle of more blocks than fit. The bucket is a folder, which is faster
 * than any network, so the ingress baseline stands in for the network.
 */
const BEFORE = {
  block_cache_bytes: 16 * MIB,
  prefetch_max_bytes: 0,
  wal_cache_bytes: 16 * MIB,
  upload_threshold_bytes: MIB,
  ingress_baseline_bytes_per_second: 5 * MIB,
};
/** Uploads take two thirds of it, so that the groups read less than is produced. */
const EGRESS_LIMIT = 1.5 * MIB;

const MEASURED_SECONDS = 10;
/** A busy machine takes its time. */
const RATE_TIMEOUT_MS = 90_000;
/** A group counts as falling behind once its backlog has not shrunk for a minute. */
const CAUSE_TIMEOUT_MS = 180_000;
/** A limit that held producers up would cost them a second and more. */
const P99_MS_FLOOR = 500;

let cluster: TestCluster;
let producer: Producer;
let readers: Readers;

test.beforeAll(async () => {
  cluster = await createCluster(unique("tuned"));
  await createTopic(cluster.id, TOPIC, PARTITIONS);
  const backlog = new Producer("--num-records", String(BACKLOG_BYTES / RECORD_BYTES));
  await backlog.ended();
  const tuned = await rest("PATCH", `/v1/clusters/${cluster.id}/tuning`, BEFORE);
  expect(tuned.status).toBe(200);
  await expect
    .poll(uploadPending, { message: "not uploaded yet", timeout: RATE_TIMEOUT_MS })
    .toBeLessThan(4 * MIB);
  const throughput = String(PRODUCE_RATE / RECORD_BYTES);
  producer = new Producer("--duration", "3600", "--throughput", throughput);
  readers = await Readers.start();
});

test.afterAll(async () => {
  await readers?.stop();
  await producer?.stop();
  await deleteCluster(cluster.id);
});

test("more cache and prefetch speed up a catch-up; less egress slows it, but not producers", async ({
  page,
}) => {
  const complaints = complaintsOf(page);
  await signIn(page);
  const startedAt = Date.now();

  const before = await test.step("groups catch up through a cache that is too small", async () => {
    await page.goto(`/clusters/${cluster.id}/catch-up`);
    for (const group of GROUPS) {
      await expect(groupCard(page, group).locator("[data-mode=catch_up]")).toBeVisible();
    }
    const figures = await measure("before");
    await expect(page.getByRole("region", { name: "Ingress", exact: true })).toContainText(
      "Baseline: 5 MiB/s.",
    );
    expect(figures.fetchedPerDelivered, "blocks are fetched again").toBeGreaterThan(1.5);
    await checkPage(page, "tuning-load-before");
    return figures;
  });

  const faster = await test.step("more cache and prefetch speed them up", async () => {
    await page.getByRole("tab", { name: "Tuning" }).click();
    await page.getByRole("button", { name: "Change Block cache" }).click();
    await page.getByLabel("Block cache, new value").fill("256");
    await page.getByRole("button", { name: "Change Prefetch window" }).click();
    await page.getByLabel("No prefetch").uncheck();
    await expect(page.getByLabel("Prefetch window, new value")).toHaveValue("32");
    const dialog = await preview(page);
    await expect(dialog.locator("[data-change=block_cache_bytes]")).toHaveText(/16 MiB\s*256 MiB/);
    await expect(dialog.locator("[data-change=prefetch_max_bytes]")).toHaveText(
      /No prefetch\s*32 MiB/,
    );
    await checkPage(page, "tuning-load-cache-preview");
    await apply(page, 2);
    await expectRate("own count").toBeGreaterThan(2 * before.readRate);
    await expectProductRate().toBeGreaterThan(2 * before.productReadRate);
    let figures = before;
    // At first, the larger cache fills: blocks are fetched that are read later.
    await expect(async () => {
      figures = await measure("more cache and prefetch");
      expect(figures.fetchedPerDelivered, "blocks are fetched once for all groups").toBeLessThan(
        before.fetchedPerDelivered / 2,
      );
    }).toPass({ timeout: RATE_TIMEOUT_MS });
    await checkPage(page, "tuning-load-faster");
    return figures;
  });

  await test.step("less egress slows them down to the limit, but not the producer", async () => {
    await page.getByRole("button", { name: "Change Egress baseline" }).click();
    await page.getByLabel("Unlimited").uncheck();
    await page.getByLabel("Egress baseline, new value").fill(String(EGRESS_LIMIT / MIB));
    await preview(page);
    await checkPage(page, "tuning-load-egress-preview");
    await apply(page, 3);
    await expectRate("own count").toBeLessThan(EGRESS_LIMIT);
    const figures = await measure("egress limit");
    // All that is produced is uploaded, and that goes out too.
    const egress = figures.readRate + figures.produceRate;
    expect(egress / EGRESS_LIMIT, "reads and uploads, of the limit").toBeGreaterThan(0.7);
    expect(egress / EGRESS_LIMIT, "reads and uploads, of the limit").toBeLessThan(1.1);
    expect(figures.produceRate).toBeGreaterThan(0.9 * PRODUCE_RATE);
    expect(figures.p99Ms).toBeLessThan(Math.max(3 * faster.p99Ms, P99_MS_FLOOR));
    await checkPage(page, "tuning-load-limited");
  });

  await test.step("the catch-up page names the limit", async () => {
    await page.getByRole("tab", { name: "Catch-up" }).click();
    const egress = page.getByRole("region", { name: "Egress", exact: true });
    await expect(egress).toContainText("Baseline: 1.5 MiB/s.");
    const reads = egress.getByRole("row", { name: /^Catch-up reads/ });
    await expect(reads.getByRole("cell").last(), "reads that wait").toHaveText(/^[1-9]/);
    for (const group of GROUPS) {
      await expect(groupCard(page, group).locator("[data-cause=egress_limit]")).toContainText(
        "Raise the egress baseline",
        { timeout: CAUSE_TIMEOUT_MS },
      );
    }
    await checkPage(page, "tuning-load-cause");
  });

  await test.step("the change is reverted, and they speed up again", async () => {
    await page.getByRole("tab", { name: "Tuning" }).click();
    await page.getByRole("button", { name: "Revert change 3" }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog.locator("[data-change=egress_baseline_bytes_per_second]")).toHaveText(
      /1.5 MiB\/s\s*Unlimited/,
    );
    await checkPage(page, "tuning-load-revert");
    await dialog.getByRole("button", { name: "Revert", exact: true }).click();
    await expectApplied(page, 4);
    await expect(page.locator("[data-history='4']")).toContainText("Reverts change #3");
    await expectRate("own count").toBeGreaterThan(2 * before.readRate);
    await measure("reverted");
    expect(await backlogLeft(), "what nobody has read yet").toBeGreaterThan(0);
  });

  await test.step("markers on the charts say what was changed when", async () => {
    await expectMarkers(page, "Catch-up reads and producers");
    // Without the writing of the backlog, which would flatten the rest.
    const range = `?from=${startedAt}&to=${Date.now()}`;
    await page.goto(`/clusters/${cluster.id}/tuning${range}`);
    await expectMarkers(page, "Catch-up reads and producers");
    await checkPage(page, "tuning-load-reverted");
    await page.goto(`/clusters/${cluster.id}${range}`);
    await expectMarkers(page, "Throughput");
    await marker(page, "Throughput", "Tuning #2").hover();
    await checkPage(page, "tuning-load-overview");
    await page.getByRole("button", { name: "Throughput as a table" }).click();
    const rows = page.getByRole("table", { name: "Throughput" }).locator("[data-marker]");
    await expect(rows).toHaveText([/^Tuning #4, reverts #3/, /^Tuning #3/, /^Tuning #2/]);
    await rows.first().scrollIntoViewIfNeeded();
    await checkPage(page, "tuning-load-table");
  });

  expect(producer.errors, "records that were not acknowledged").toBe(0);
  expect(complaints, "what the browser complained about").toEqual([]);
});

async function preview(page: Page): Promise<Locator> {
  await page.getByRole("button", { name: "Preview" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("Applied without a restart");
  return dialog;
}

/** Applies what is previewed, as the version of that number. */
async function apply(page: Page, version: number): Promise<void> {
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await expectApplied(page, version);
}

async function expectApplied(page: Page, version: number): Promise<void> {
  const line = page.locator(`[data-history='${version}']`);
  await expect(line.locator("[data-result=applied]")).toBeVisible();
}

function groupCard(page: Page, group: string): Locator {
  return page.getByRole("region", { name: `Consumer group ${group}` });
}

/** Of the first chart with this title, the marker that says so. */
function marker(page: Page, chart: string, text: string): Locator {
  const region = page.getByRole("region", { name: chart, exact: true }).first();
  return region.locator(`.chart-marker[data-text*="${text}"]`);
}

async function expectMarkers(page: Page, chart: string): Promise<void> {
  const stories = [
    ["Tuning #2", "Block cache: 16 MiB → 256 MiB\nPrefetch window: No prefetch → 32 MiB"],
    ["Tuning #3", "Egress baseline: Unlimited → 1.5 MiB/s"],
    ["Tuning #4, reverts #3", "Egress baseline: 1.5 MiB/s → Unlimited"],
  ] as const;
  for (const [title, changes] of stories) {
    await expect(marker(page, chart, title)).toHaveAttribute("data-text", new RegExp(changes));
  }
}

function expectRate(message: string) {
  const options = { message, timeout: RATE_TIMEOUT_MS };
  return expect.poll(() => readers.rate(MEASURED_SECONDS), options);
}

function expectProductRate() {
  const options = { message: "the product's figure", timeout: RATE_TIMEOUT_MS };
  return expect.poll(async () => readRateOf(await catchUp()), options);
}

/** All rates in bytes per second. */
interface Figures {
  /** The readers' own count. */
  readRate: number;
  /** The product's. */
  productReadRate: number;
  fetchedPerDelivered: number;
  produceRate: number;
  /** Of the producer's acknowledgements, as it counts them itself. */
  p99Ms: number;
}

/** What the next seconds bring. */
async function measure(stage: string): Promise<Figures> {
  const from = await catchUp();
  const produced = producer.samples.length;
  await sleep(MEASURED_SECONDS * 1_000);
  const to = await catchUp();
  const moved = (name: string) => Number(to.cache[name]) - Number(from.cache[name]);
  const figures: Figures = {
    readRate: readers.rate(MEASURED_SECONDS),
    productReadRate: readRateOf(to),
    fetchedPerDelivered: moved("fetched_bytes") / moved("delivered_bytes"),
    ...producer.figuresSince(produced),
  };
  test.info().annotations.push({ type: stage, description: JSON.stringify(figures) });
  return figures;
}

async function catchUp(): Promise<{
  cache: Record<string, string>;
  groups: { read_bytes_per_second: number; backlog_bytes: string }[];
}> {
  return (await rest("GET", `/v1/clusters/${cluster.id}/catch-up`)).body;
}

function readRateOf({ groups }: Awaited<ReturnType<typeof catchUp>>): number {
  return groups.reduce((sum, group) => sum + group.read_bytes_per_second, 0);
}

/** Of the group that is farthest, bytes. */
async function backlogLeft(): Promise<number> {
  const { groups } = await catchUp();
  return Math.min(...groups.map(({ backlog_bytes }) => Number(backlog_bytes)));
}

async function uploadPending(): Promise<number> {
  const url = new URL(`/v1/clusters/${cluster.id}/prometheus`, credentials.apiUrl);
  const answer = await fetch(url, { headers: { authorization: `Bearer ${credentials.apiKey}` } });
  const value = /^millrace_upload_pending_bytes(?:\{.*\})? (\S+)/m.exec(await answer.text())?.[1];
  return Number(value);
}

/** What `millrace perf` tells each second. */
interface Sample {
  bytes: number;
  bytes_per_second: number;
  errors: number;
  latency_ms: { p99: number } | null;
}

/** A process of its own, so that nothing here delays an acknowledgement. */
class Producer {
  readonly samples: Sample[] = [];
  readonly #process: ChildProcess;

  constructor(...flags: string[]) {
    const common = ["--bootstrap-server", cluster.bootstrap, "--topic", TOPIC];
    const load = ["--record-size", String(RECORD_BYTES), "--partitioner", "round_robin"];
    const args = ["perf", "produce", ...common, ...load, ...flags, "--progress", "json"];
    this.#process = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
    const lines = createInterface({ input: this.#process.stdout as NodeJS.ReadableStream });
    lines.on("line", (line) => {
      const { kind, produced } = JSON.parse(line);
      if (kind === "progress") this.samples.push(produced);
    });
  }

  /** Waits until all was sent. */
  async ended(): Promise<void> {
    if (this.#process.exitCode === null) await once(this.#process, "exit");
    expect(this.#process.exitCode, "millrace perf").toBe(0);
  }

  async stop(): Promise<void> {
    this.#process.kill("SIGINT");
    await this.ended();
  }

  get errors(): number {
    return this.samples.at(-1)?.errors ?? Number.NaN;
  }

  figuresSince(first: number): Pick<Figures, "produceRate" | "p99Ms"> {
    const samples = this.samples.slice(first);
    const rates = samples.map(({ bytes_per_second }) => bytes_per_second);
    const p99s = samples.map(({ latency_ms }) => latency_ms?.p99 ?? Number.POSITIVE_INFINITY);
    return {
      produceRate: rates.reduce((sum, rate) => sum + rate, 0) / rates.length,
      // The median of the seconds, so that one hiccup of the machine does not decide.
      p99Ms: p99s.sort((a, b) => a - b)[p99s.length >> 1] ?? Number.NaN,
    };
  }
}

/** The groups' consumers, and what they have received. */
class Readers {
  /** Bytes by second. */
  readonly #received = new Map<number, number>();
  readonly #stops: (() => Promise<void>)[] = [];

  static async start(): Promise<Readers> {
    const readers = new Readers();
    for (const group of GROUPS) await readers.#add(group);
    return readers;
  }

  async #add(groupId: string): Promise<void> {
    const consumer = new Consumer({
      clientId: groupId,
      bootstrapBrokers: [cluster.bootstrap],
      groupId,
      maxBytesPerPartition: FETCH_BYTES,
      autocommit: 500,
    });
    const stream = await consumer.consume({ topics: [TOPIC], mode: "earliest" });
    stream.on("data", ({ value }) => this.#count(value.length));
    this.#stops.push(async () => {
      await stream.close();
      await consumer.close(true);
    });
  }

  #count(bytes: number): void {
    const second = Math.floor(Date.now() / 1_000);
    this.#received.set(second, (this.#received.get(second) ?? 0) + bytes);
  }

  /** Of all groups together over the last so many whole seconds, bytes per second. */
  rate(seconds: number): number {
    const now = Math.floor(Date.now() / 1_000);
    let bytes = 0;
    for (let n = 1; n <= seconds; n++) bytes += this.#received.get(now - n) ?? 0;
    return bytes / seconds;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#stops.map((stop) => stop()));
  }
}
