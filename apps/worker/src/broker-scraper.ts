import { BrokerHttp, type ClusterHttp, clusterHttp } from "@millrace/broker-admin";
import type { Database, MetricReadings, TenantDatabase } from "@millrace/db";
import {
  brokerIdsOf,
  type Clock,
  type Cluster,
  type ConsumerGroupSummary,
  type MetricScrape,
  resolutionAt,
  SERVING_PHASES,
  type TopicScrape,
} from "@millrace/domain";
import { hasRestarted, isScraped, ReadingWriter, readScrape } from "@millrace/metrics";
import type { ClusterDeployment, ClusterDriver, ClusterDrivers } from "@millrace/provisioner";
import type { Logger } from "pino";
import { ActiveGroups } from "./active-groups.ts";
import { topicStarts } from "./topic-starts.ts";

export interface ScraperOptions {
  readonly db: Pick<Database, "tenant"> & {
    readonly fleet: Pick<Database["fleet"], "clusters" | "scrapeLeases">;
  };
  /** Names this process among the workers that share the database. */
  readonly workerId: string;
  readonly drivers: Pick<ClusterDrivers, "find">;
  readonly deploymentOf: (cluster: Cluster) => ClusterDeployment | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** How often a cluster is read that nobody looks at. One that somebody looks at is read in each round. */
const INTERVAL_MS = 10_000;
/**
 * A reading comes up to a round and the broker's answer after its moment. In the last part of a stretch of a resolution
 * there are no moments, so that it does not fall into the next stretch, which then had two readings and this one none.
 */
const LATE_MS = 2_500;
/** A killed worker's clusters are read by another one this much later, and within one more round. */
const LEASE_MS = 6_000;
/** One worker reads at most so many: at 10 s each they keep a processor busy. Further ones need another worker. */
const CLUSTERS_MAX = 1_000;
/** Two missed readings in a row are bridged; of anything longer nothing is known. */
const GAP_MS = 35_000;
/** A broker that started longer ago has counted for longer than a chart should spread over its first reading. */
const START_MS_MAX = 180_000;
/** Readings at the ends of gaps and restarts are stored here, so that every resolution has them. */
const COARSEST = 600;
/** There are many topics; this resolution is enough to see which topic is busy. */
const TOPIC_RESOLUTION = 10;
/** How often a cluster's readings are put into chunks. */
const COMPACT_MS = 600_000;
/** Lag needs a request per thousand groups or ten thousand partitions. */
const LAG_INTERVAL_MS = 4_000;
/** Bound of one reading of the lag, below its interval. */
const LAG_TIMEOUT_MS = 3_000;
/** Requests of one reading: 20,000 groups, or 200,000 partitions. Groups beyond that have no lag here. */
const LAG_PAGES_MAX = 20;

/** Characters, of up to three bytes; the API does not find groups with longer ids either. */
const METRIC_GROUP_LENGTH_MAX = 500;

/** What the scraper keeps per cluster between two rounds. */
interface Target {
  /** Which of the intervals since the epoch the last reading was in. */
  interval: number | undefined;
  readonly brokers: Map<number, BrokerTarget>;
  lagAt: number;
  readonly groups: ActiveGroups;
  /** Which of the intervals of `COMPACT_MS` since the epoch the readings were last put into chunks in. */
  compacted: number;
  /** Failures are logged once when they start and once when they end, not every round. */
  failing: boolean;
}

/** What the scraper keeps per broker. */
interface BrokerTarget {
  readonly brokerId: number;
  /** The last reading, of whichever worker; undefined until it is known, null where there is none. */
  before: MetricScrape | null | undefined;
  topicsBefore: readonly TopicScrape[];
  /** Topics of the last readings, of whichever worker; undefined until they are known. */
  topicNames: ReadonlySet<string> | undefined;
  /** Whether the broker's start is among its readings. */
  startRead: boolean;
}

/**
 * Reads counters and consumer lag of the serving clusters that this worker holds a lease of, and
 * stores them. A broker that does not answer only leaves a gap in its series; the supervisor reports
 * that it is down. A worker that comes to a standstill may store one reading after another worker has
 * taken its clusters: readings of cumulative counters do not disturb each other.
 */
export class BrokerScraper {
  readonly #options: ScraperOptions;
  readonly #targets = new Map<string, Target>();
  readonly #writer: ReadingWriter;
  readonly #underWay = new Map<string, Promise<void>>();

  constructor(options: ScraperOptions) {
    this.#options = options;
    this.#writer = new ReadingWriter(options.db);
  }

  /**
   * Starts a reading of each cluster and does not wait for it: a broker that hangs must not leave
   * gaps in the others' series. A cluster's next reading starts after its last one has ended.
   */
  async runOnce(): Promise<void> {
    const { fleet } = this.#options.db;
    const serving = await fleet.clusters.inPhases(SERVING_PHASES);
    const running = serving.filter(({ paused }) => !paused);
    const leases = await fleet.scrapeLeases.claim({
      workerId: this.#options.workerId,
      clusterIds: running.map(({ id }) => id),
      leaseMs: LEASE_MS,
      clustersMax: CLUSTERS_MAX,
    });
    const watched = new Map<string, boolean>(leases.map((each) => [each.clusterId, each.watched]));
    for (const id of this.#targets.keys()) {
      if (watched.has(id) || this.#underWay.has(id)) continue;
      this.#targets.delete(id);
    }
    for (const cluster of running) {
      if (!watched.has(cluster.id) || this.#underWay.has(cluster.id)) continue;
      if (!this.#isDue(cluster, watched.get(cluster.id) ?? false)) continue;
      const reading = this.#scrape(cluster).finally(() => this.#underWay.delete(cluster.id));
      this.#underWay.set(cluster.id, reading);
    }
  }

  /** Each cluster has its own moment within the interval, so that they are not all read at once. */
  #isDue({ id }: Cluster, watched: boolean): boolean {
    const target = this.#targetOf(id);
    const interval = this.#intervalOf(id, INTERVAL_MS);
    if (!watched && target.interval === interval) return false;
    target.interval = interval;
    return true;
  }

  /** Which interval of this length it is now, as each cluster counts them. */
  #intervalOf(id: string, lengthMs: number): number {
    const moments = lengthMs - LATE_MS;
    const moment = [...id].reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) % moments, 0);
    return Math.floor((this.#options.clock.now().getTime() - moment) / lengthMs);
  }

  /** Waits for the readings in progress. */
  async idle(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  /** Waits for the readings in progress, and leaves the clusters to another worker. */
  async close(): Promise<void> {
    await this.idle();
    await this.#options.db.fleet.scrapeLeases.release(this.#options.workerId);
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
      ...brokerIdsOf(deployment).map((id) =>
        this.#scrapeCounters(cluster, driver, deployment, brokerOf(target, id)),
      ),
      this.#scrapeLag(cluster, driver, deployment, target),
    ]);
    await this.#compact(cluster, target, log);
    const failure = results.find((result) => result.status === "rejected");
    if (failure === undefined) {
      if (target.failing) log.info("metrics are read again");
      target.failing = false;
      return;
    }
    if (!target.failing) log.warn({ err: failure.reason }, "metrics cannot be read");
    target.failing = true;
  }

  async #scrapeCounters(
    cluster: Cluster,
    driver: ClusterDriver,
    deployment: ClusterDeployment,
    target: BrokerTarget,
  ): Promise<void> {
    const { clock, db } = this.#options;
    const { metrics } = db.tenant(cluster.organizationId);
    const { brokerId, startRead } = target;
    // Until all of this has succeeded, it may have been restarted.
    target.startRead = false;
    const http = new BrokerHttp(await driver.access(deployment, brokerId));
    const samples = await http.metrics(isScraped);
    const at = clock.now();
    target.before ??= (await metrics.newest(cluster.id, brokerId)) ?? null;
    const start = startRead ? undefined : await this.#startOf(cluster, http, target);
    const before = start ?? target.before ?? undefined;
    const afterGap = start === undefined && isGap(before, at);
    const source = { clusterId: cluster.id, brokerId, at, afterGap };
    const { broker, topics } = readScrape(source, samples);
    const restarted = before !== undefined && hasRestarted(before, broker);
    const isEdge = before === undefined || afterGap || restarted;
    const readings: MetricReadings[] = [];
    if (isEdge && target.before) {
      const { before: last, topicsBefore } = target;
      readings.push({ resolution: COARSEST, brokers: [last], topics: topicsBefore });
    }
    if (start !== undefined) readings.push({ resolution: COARSEST, brokers: [start] });
    if (before !== undefined && !afterGap) {
      const fromZero = start !== undefined || restarted;
      const known = fromZero ? new Set<string>() : await topicNames(metrics, target, before);
      const starts = topicStarts(topics, known, start?.at ?? justAfter(before));
      readings.push({ resolution: COARSEST, topics: starts });
    }
    const resolution = isEdge ? COARSEST : resolutionAt(before.at, at);
    const ofTopics = resolution >= TOPIC_RESOLUTION ? topics : [];
    readings.push({ resolution, brokers: [broker], topics: ofTopics });
    await this.#writer.add(cluster.organizationId, readings);
    target.startRead = true;
    target.before = broker;
    target.topicsBefore = topics;
    target.topicNames = new Set(topics.map(({ topic }) => topic));
  }

  /**
   * Every counter was zero when the broker's process started. Taking that as a reading counts what
   * the broker did before its first one.
   */
  async #startOf(
    cluster: Cluster,
    http: BrokerHttp,
    { brokerId, before }: BrokerTarget,
  ): Promise<MetricScrape | undefined> {
    const { uptimeMs } = await http.status();
    if (uptimeMs === undefined || uptimeMs > START_MS_MAX) return undefined;
    const at = new Date(this.#options.clock.now().getTime() - uptimeMs);
    if (before && before.at >= at) return undefined;
    const afterGap = isGap(before ?? undefined, at);
    const source = { clusterId: cluster.id, brokerId, at, afterGap };
    return readScrape(source, []).broker;
  }

  async #scrapeLag(
    cluster: Cluster,
    driver: ClusterDriver,
    deployment: ClusterDeployment,
    target: Target,
  ): Promise<void> {
    const { clock } = this.#options;
    if (clock.now().getTime() - target.lagAt < LAG_INTERVAL_MS) return;
    const brokers = brokerIdsOf(deployment).map(
      async (id) => new BrokerHttp(await driver.access(deployment, id)),
    );
    const groups = await readGroups(await clusterHttp(await Promise.all(brokers)));
    const at = clock.now();
    const resolution = resolutionAt(new Date(target.lagAt), at);
    target.lagAt = at.getTime();
    const lag = target.groups
      .read(groups, at.getTime())
      // A group with unknown lag leaves a gap: 0 would mean that it is caught up.
      .filter(({ group }) => group.partitionCount > group.offlinePartitionCount)
      .filter(({ group }) => isStorable(group.groupId))
      .map(({ group: { groupId, lag }, idle }) => {
        return { clusterId: cluster.id, groupId, at, lag, idle };
      });
    if (lag.length > 0) await this.#writer.add(cluster.organizationId, [{ resolution, lag }]);
  }

  /** Never rejects: readings that are in no chunk are read as well, and are tried again in the next interval. */
  async #compact({ id, organizationId }: Cluster, target: Target, log: Logger): Promise<void> {
    const interval = this.#intervalOf(id, COMPACT_MS);
    if (target.compacted === interval) return;
    target.compacted = interval;
    const { metrics } = this.#options.db.tenant(organizationId);
    try {
      let more = true;
      while (more) more = await metrics.compact(id, this.#options.clock.now());
    } catch (err) {
      log.warn({ err }, "metrics cannot be compacted");
    }
  }

  #targetOf(id: string): Target {
    const known = this.#targets.get(id);
    if (known) return known;
    const target: Target = {
      interval: undefined,
      brokers: new Map(),
      lagAt: 0,
      groups: new ActiveGroups(),
      // A worker that starts, or takes over, does not compact all of its clusters at once.
      compacted: this.#intervalOf(id, COMPACT_MS),
      failing: false,
    };
    this.#targets.set(id, target);
    return target;
  }
}

function brokerOf({ brokers }: Target, brokerId: number): BrokerTarget {
  const known = brokers.get(brokerId);
  if (known) return known;
  const target: BrokerTarget = {
    ...{ brokerId, before: undefined, topicsBefore: [], topicNames: undefined, startRead: false },
  };
  brokers.set(brokerId, target);
  return target;
}

async function readGroups({
  groups,
}: Pick<ClusterHttp, "groups">): Promise<ConsumerGroupSummary[]> {
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

/** PostgreSQL's texts have no NUL, and its indexes no long keys. Kafka's ids of groups may have both. */
function isStorable(groupId: string): boolean {
  return groupId.length <= METRIC_GROUP_LENGTH_MAX && !groupId.includes("\0");
}

/** A worker that takes over asks for what the other one stored: every reading at 10 s has all topics. */
async function topicNames(
  metrics: Pick<TenantDatabase["metrics"], "topicScrapes">,
  { brokerId, topicNames: known }: BrokerTarget,
  { clusterId, at }: MetricScrape,
): Promise<ReadonlySet<string>> {
  if (known !== undefined) return known;
  const range = { from: new Date(at.getTime() - GAP_MS), to: new Date(at.getTime() + 2) };
  const stored = await metrics.topicScrapes(clusterId, undefined, range, TOPIC_RESOLUTION);
  const ofBroker = stored.filter((reading) => reading.brokerId === brokerId);
  return new Set(ofBroker.map(({ topic }) => topic));
}

/** Readings at the same time and resolution are one row, and that of the last reading is there already. */
function justAfter({ at }: MetricScrape): Date {
  return new Date(at.getTime() + 1);
}

function isGap(before: MetricScrape | undefined, at: Date): boolean {
  return before === undefined || at.getTime() - before.at.getTime() > GAP_MS;
}
