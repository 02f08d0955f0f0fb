/**
 * Cuts links and kills gateways and workers, in random order, while the API reads and changes two clusters. Afterwards: each
 * broker is back, each answer was its own broker's, and nothing was carried out twice. Each change is one of a kind, so that a
 * second one shows: a topic exists already, a record is there twice, the broker's audit log has a second line.
 */
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { BrokerError } from "@millrace/broker-admin";
import { getTuning, listTuningChanges, updateTuning } from "@millrace/core";
import { seededRandom } from "../../../packages/provisioner/test/seeded-random.ts";
import { eventually } from "./fixture.ts";
import { GROUP, type LinkedCluster, type LinkSite } from "./link-site.ts";

export const DISRUPTIONS = ["link", "gateway", "worker"] as const;
type Disruption = (typeof DISRUPTIONS)[number];

export interface LinkDrillOptions {
  readonly disruptions: number;
  readonly seed: number;
  readonly say: (line: string) => void;
}

export interface LinkDrillReport {
  /**
   * Until every broker answers, in milliseconds: from a cut link, from a killed worker, and, where a gateway was killed, from when
   * the next one takes connections.
   */
  readonly reconnectedMs: Readonly<Record<Disruption, readonly number[]>>;
  readonly acknowledged: number;
  /** Failed calls that may have been carried out, or not. */
  readonly unknown: number;
}

/** A broker dials again within two seconds, and a busy machine takes its time. */
const RECONNECT_MS_MAX = 60_000;
const LEDGER = "ledger";
/** Two processors serve two brokers, gateway, worker and the callers. */
const PAUSE_MS = 20;
const PAUSE_AFTER_FAILURE_MS = 200;
/** An organization has 30 requests per second to its brokers, and a change takes three. */
const TUNING_PAUSE_MS = 400;
const SEGMENT_BYTES_MIN = 1024 ** 2;
const CACHE_BYTES_MIN = 64 * 1024 ** 2;
const CACHE_STEP_BYTES = 64 * 1024;
/** What a call may fail with while links come and go. */
const EXPECTED = ["unreachable", "timeout", "busy", "not_ready"];

export async function linkDrill(
  site: LinkSite,
  clusters: readonly LinkedCluster[],
  { disruptions, seed, say }: LinkDrillOptions,
): Promise<LinkDrillReport> {
  const random = seededRandom(seed);
  const pids = clusters.map((each) => site.brokersOf(each));
  for (const { broker } of clusters) {
    await broker.topics.create({ name: LEDGER, partitions: 1, configs: {} });
  }
  const stopping = new AbortController();
  const callers = clusters.map((each) => new Caller(site, each, clusters, stopping.signal));
  const calls = callers.map((caller) => caller.run());
  // They are looked at after each disruption, and at the end.
  for (const call of calls) call.catch(() => {});
  const reconnectedMs: Record<Disruption, number[]> = { link: [], gateway: [], worker: [] };
  try {
    for (const disruption of orderOf(disruptions, random)) {
      await sleep(random() * 500);
      if (disruption === "link") site.cutLinks();
      if (disruption === "gateway") await site.killGateway();
      const worker = disruption === "worker" ? site.killWorker() : undefined;
      const reconnected = Promise.race([reconnection(clusters), ...calls]);
      // A worker that is being started when the drill fails must not be left behind.
      const ms = await reconnected.finally(() => worker);
      if (typeof ms !== "number") throw new Error("the callers have stopped");
      reconnectedMs[disruption].push(ms);
      say(`${disruption}: every broker answers after ${ms} ms`);
    }
  } finally {
    stopping.abort();
    await Promise.allSettled(calls);
  }
  await Promise.all(calls);
  for (const caller of callers) await caller.verify();
  expectSame(
    "processes of the brokers",
    clusters.map((each) => site.brokersOf(each)),
    pids,
  );
  const sum = (count: (caller: Caller) => number) => callers.map(count).reduce((a, b) => a + b, 0);
  return {
    reconnectedMs,
    acknowledged: sum((caller) => caller.acknowledged),
    unknown: sum((caller) => caller.unknown),
  };
}

/** As many of each kind, in random order. */
function orderOf(count: number, random: () => number): Disruption[] {
  return Array.from({ length: count }, (_, index) => DISRUPTIONS[index % DISRUPTIONS.length]!)
    .map((kind) => ({ kind, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ kind }) => kind);
}

async function reconnection(clusters: readonly LinkedCluster[]): Promise<number> {
  const startedAt = performance.now();
  await Promise.all(
    clusters.map(({ broker, cluster }) =>
      eventually(RECONNECT_MS_MAX, `the broker of ${cluster.name} answers`, () =>
        broker.status().catch(() => undefined),
      ),
    ),
  );
  return Math.round(performance.now() - startedAt);
}

/** What the API asks of one cluster, over and over. */
class Caller {
  readonly #site: LinkSite;
  readonly #it: LinkedCluster;
  readonly #others: readonly LinkedCluster[];
  readonly #signal: AbortSignal;
  /** What was acknowledged, and so must be there. */
  readonly #topics = new Set<string>();
  readonly #changed = new Set<string>();
  readonly #records = new Set<string>();
  readonly #cacheBytes = new Set<number>();
  acknowledged = 0;
  unknown = 0;

  constructor(
    site: LinkSite,
    it: LinkedCluster,
    clusters: readonly LinkedCluster[],
    signal: AbortSignal,
  ) {
    this.#site = site;
    this.#it = it;
    this.#others = clusters.filter((each) => each !== it);
    this.#signal = signal;
  }

  async run(): Promise<void> {
    await Promise.all([
      this.#repeat((n) => this.#changeTopics(n)),
      this.#repeat((n) => this.#write(`record-${n}`)),
      this.#repeat((n) => this.#tune(CACHE_BYTES_MIN + n * CACHE_STEP_BYTES), TUNING_PAUSE_MS),
      this.#repeat(() => this.#read()),
    ]);
  }

  async #repeat(call: (n: number) => Promise<void>, pauseMs = PAUSE_MS): Promise<void> {
    for (let n = 1; !this.#signal.aborted; n += 1) {
      try {
        await call(n);
        this.acknowledged += 1;
      } catch (error) {
        if (!(error instanceof BrokerError) || !EXPECTED.includes(error.code)) throw error;
        this.unknown += 1;
        await sleep(PAUSE_AFTER_FAILURE_MS);
      }
      await sleep(pauseMs);
    }
  }

  /** Each topic is created once and changed once. */
  async #changeTopics(n: number): Promise<void> {
    const { topics } = this.#it.broker;
    const name = `topic-${n}`;
    await topics.create({ name, partitions: 1, configs: {} });
    this.#topics.add(name);
    const configs = { "segment.bytes": String(SEGMENT_BYTES_MIN + n) };
    await topics.change(name, { configs });
    this.#changed.add(name);
  }

  async #write(id: string): Promise<void> {
    const records = [{ value: { encoding: "text" as const, data: id } }];
    const { results } = await this.#it.broker.records.produce(LEDGER, { records });
    if (results.every((result) => !("error" in result))) this.#records.add(id);
  }

  async #tune(bytes: number): Promise<void> {
    const { core, principal } = this.#site;
    const patch = { block_cache_bytes: bytes };
    await updateTuning(core, principal, { clusterId: this.#it.cluster.id, patch });
    this.#cacheBytes.add(bytes);
  }

  async #read(): Promise<void> {
    const { broker, cluster, ownTopic } = this.#it;
    expectSame("cluster of a status", (await broker.status()).clusterId, cluster.id);
    const { partitions } = await broker.groups.describe(GROUP);
    const read = [...new Set(partitions.map(({ topic }) => topic))];
    expectSame("topics of a group", read, [ownTopic]);
    const names = await broker.topics.names();
    const wrong = this.#others.filter((other) => names.includes(other.ownTopic));
    expectSame("topics of other clusters", wrong, []);
  }

  /** What was acknowledged is there, and nothing is there twice. */
  async verify(): Promise<void> {
    await this.#verifyTopics();
    await this.#verifyRecords();
    await this.#verifyTuning();
  }

  async #verifyTopics(): Promise<void> {
    const { broker, logFile } = this.#it;
    const names = await broker.topics.names();
    expectSame(
      "acknowledged topics that are missing",
      [...this.#topics].filter((name) => !names.includes(name)),
      [],
    );
    const log = await readFile(logFile, "utf8");
    for (const [operation, acknowledged] of [
      ["CREATE", this.#topics],
      ["ALTER_CONFIGS", this.#changed],
    ] as const) {
      const line = new RegExp(`"${operation}" resource_type="\\w+" resource="(topic-\\d+)"`, "g");
      const changed = [...log.matchAll(line)].map(([, name = ""]) => name);
      expectOnce(`lines of the audit log (${operation})`, changed);
      const missing = [...acknowledged].filter((name) => !changed.includes(name));
      expectSame(`lines of the audit log (${operation}) that are missing`, missing, []);
    }
  }

  async #verifyRecords(): Promise<void> {
    const found: string[] = [];
    let cursor: string | undefined;
    for (let end = false; !end; ) {
      const start = cursor === undefined ? { from: "earliest" as const } : { cursor };
      const signal = AbortSignal.timeout(RECONNECT_MS_MAX);
      const page = await this.#it.broker.records.list(LEDGER, { ...start, limit: 500 }, signal);
      found.push(...page.records.map(({ value }) => value?.data ?? ""));
      cursor = page.cursor ?? undefined;
      end = page.end;
    }
    expectOnce("records", found);
    const lost = [...this.#records].filter((id) => !found.includes(id));
    expectSame("acknowledged records that are missing", lost, []);
  }

  async #verifyTuning(): Promise<void> {
    const { core, principal } = this.#site;
    const { cluster, broker } = this.#it;
    const made: number[] = [];
    let pageToken: string | undefined;
    do {
      const input = { clusterId: cluster.id, ...{ pageSize: 100, pageToken } };
      const { items, nextPageToken } = await listTuningChanges(core, principal, input);
      made.push(...items.flatMap(({ change }) => change.changes.map(({ to }) => to)));
      pageToken = nextPageToken;
    } while (pageToken);
    expectOnce("changes of the tuning", made.map(String));
    const lost = [...this.#cacheBytes].filter((bytes) => !made.includes(bytes));
    expectSame("acknowledged changes of the tuning that are missing", lost, []);
    // The worker gives the broker what a call could not.
    await eventually(RECONNECT_MS_MAX, `${cluster.name} has its tuning`, async () => {
      const { applied, knobs } = await getTuning(core, principal, cluster.id);
      const value = (await broker.settings()).get("s3.block.cache.size")?.value;
      return applied && value === String(knobs.block_cache_bytes.value) ? true : undefined;
    });
  }
}

function expectOnce(what: string, found: readonly string[]): void {
  if (found.length === 0) throw new Error(`there are no ${what}`);
  const twice = found.filter((each, index) => found.indexOf(each) !== index);
  expectSame(`${what} that are there twice`, twice, []);
}

function expectSame(what: string, found: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(found), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: ${left}, expected ${right}`);
}
