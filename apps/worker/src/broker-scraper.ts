import { BrokerHttp } from "@millrace/broker-admin";
import type { Database } from "@millrace/db";
import {
  type Clock,
  type Cluster,
  type ConsumerGroupSummary,
  SERVING_PHASES,
} from "@millrace/domain";
import { readScrape } from "@millrace/metrics";
import type { ClusterDeployment, ClusterDriver, ClusterDrivers } from "@millrace/provisioner";
import type { Logger } from "pino";
import { ActiveGroups } from "./active-groups.ts";

export interface ScraperOptions {
  readonly db: Pick<Database, "tenant"> & { readonly fleet: Pick<Database["fleet"], "clusters"> };
  readonly drivers: Pick<ClusterDrivers, "find">;
  readonly deploymentOf: (cluster: Cluster) => ClusterDeployment | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A local cluster has one broker, number 0. */
const BROKER_ID = 0;
/** There are many rows per topic; ten seconds are enough to see which topic is busy. */
const TOPIC_INTERVAL_MS = 10_000;
/** Lag needs a request per thousand groups or ten thousand partitions. */
const LAG_INTERVAL_MS = 4_000;
/** Bound of one reading of the lag, below its interval. */
const LAG_TIMEOUT_MS = 3_000;
/** Requests of one reading: 20,000 groups, or 200,000 partitions. Groups beyond that have no lag here. */
const LAG_PAGES_MAX = 20;

/** What the scraper keeps per cluster between two rounds. */
interface Target {
  topicsAt: number;
  lagAt: number;
  readonly groups: ActiveGroups;
  /** Whether the broker's start is among its readings. */
  startRead: boolean;
  /** Failures are logged once when they start and once when they end, not every round. */
  failing: boolean;
}

/**
 * Reads every serving cluster's counters and consumer lag, and stores them. A broker that does not
 * answer only leaves a gap in its series; the supervisor reports that it is down.
 */
export class BrokerScraper {
  readonly #options: ScraperOptions;
  readonly #targets = new Map<string, Target>();
  readonly #underWay = new Map<string, Promise<void>>();

  constructor(options: ScraperOptions) {
    this.#options = options;
  }

  /**
   * Starts a reading of each cluster and does not wait for it: a broker that hangs must not leave
   * gaps in the others' series. A cluster's next reading starts after its last one has ended.
   */
  async runOnce(): Promise<void> {
    const serving = await this.#options.db.fleet.clusters.inPhases(SERVING_PHASES);
    const clusters = serving.filter(({ paused }) => !paused);
    const ids = new Set<string>(clusters.map((cluster) => cluster.id));
    for (const id of this.#targets.keys()) {
      if (!ids.has(id) && !this.#underWay.has(id)) this.#targets.delete(id);
    }
    for (const cluster of clusters) {
      if (this.#underWay.has(cluster.id)) continue;
      const reading = this.#scrape(cluster).finally(() => this.#underWay.delete(cluster.id));
      this.#underWay.set(cluster.id, reading);
    }
  }

  /** Waits for the readings in progress. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay.values());
    this.#targets.clear();
  }

  /** Never rejects. */
  async #scrape(cluster: Cluster): Promise<void> {
    const deployment = this.#options.deploymentOf(cluster);
    const driver = this.#options.drivers.find(cluster.region);
    if (deployment === undefined || driver === undefined) return;
    const target = this.#targetOf(cluster.id);
    const log = this.#options.logger.child({ cluster: cluster.id });
    const results = await Promise.allSettled([
      this.#scrapeCounters(cluster, driver, deployment, target),
      this.#scrapeLag(cluster, driver, deployment, target),
    ]);
    const failure = results.find((result) => result.status === "rejected");
    if (failure === undefined) {
      if (target.failing) log.info("metrics are read again");
      target.failing = false;
      return;
    }
    if (!target.failing) log.warn({ err: failure.reason }, "metrics cannot be read");
    target.failing = true;
    target.startRead = false;
  }

  async #scrapeCounters(
    cluster: Cluster,
    driver: ClusterDriver,
    deployment: ClusterDeployment,
    target: Target,
  ): Promise<void> {
    const { clock } = this.#options;
    const { metrics } = this.#options.db.tenant(cluster.organizationId);
    const http = new BrokerHttp(await driver.access(deployment));
    const samples = await http.metrics();
    const at = clock.now();
    const source = { clusterId: cluster.id, brokerId: BROKER_ID, at };
    const { broker, topics } = readScrape(source, samples);
    if (!target.startRead) await this.#addStart(cluster, http);
    target.startRead = true;
    await metrics.addScrapes([broker]);
    if (at.getTime() - target.topicsAt < TOPIC_INTERVAL_MS || topics.length === 0) return;
    await metrics.addTopicScrapes(topics);
    target.topicsAt = at.getTime();
  }

  /**
   * Every counter was zero when the broker's process started. Taking that as a reading counts what
   * the broker did before its first one.
   */
  async #addStart(cluster: Cluster, http: BrokerHttp): Promise<void> {
    const { clock } = this.#options;
    const { metrics } = this.#options.db.tenant(cluster.organizationId);
    const { uptimeMs } = await http.status();
    if (uptimeMs === undefined) return;
    const at = new Date(clock.now().getTime() - uptimeMs);
    const since = await metrics.latest([cluster.id], at);
    if (since.length > 0) return;
    const { broker } = readScrape({ clusterId: cluster.id, brokerId: BROKER_ID, at }, []);
    await metrics.addScrapes([broker]);
  }

  async #scrapeLag(
    cluster: Cluster,
    driver: ClusterDriver,
    deployment: ClusterDeployment,
    target: Target,
  ): Promise<void> {
    const { clock } = this.#options;
    const { metrics } = this.#options.db.tenant(cluster.organizationId);
    if (clock.now().getTime() - target.lagAt < LAG_INTERVAL_MS) return;
    const groups = await readGroups(new BrokerHttp(await driver.access(deployment)));
    const at = clock.now();
    target.lagAt = at.getTime();
    const samples = target.groups
      .filter(groups, at.getTime())
      // A group with unknown lag leaves a gap: 0 would mean that it is caught up.
      .filter((group) => group.partitionCount > group.offlinePartitionCount)
      .map((group) => ({
        clusterId: cluster.id,
        groupId: group.groupId,
        at,
        lag: group.lag,
      }));
    if (samples.length > 0) await metrics.addLag(samples);
  }

  #targetOf(id: string): Target {
    const known = this.#targets.get(id);
    if (known) return known;
    const target: Target = {
      topicsAt: 0,
      lagAt: 0,
      groups: new ActiveGroups(),
      startRead: false,
      failing: false,
    };
    this.#targets.set(id, target);
    return target;
  }
}

async function readGroups({ groups }: Pick<BrokerHttp, "groups">): Promise<ConsumerGroupSummary[]> {
  const signal = AbortSignal.timeout(LAG_TIMEOUT_MS);
  const read: ConsumerGroupSummary[] = [];
  let after: string | undefined;
  for (let pages = 0; pages < LAG_PAGES_MAX; pages += 1) {
    const page = await groups.summaries({ after, signal });
    read.push(...page.groups);
    after = page.next;
    if (after === undefined) break;
  }
  return read;
}
