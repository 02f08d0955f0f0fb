/** The brokers of a cluster as one: what any of them answers, and what has to be put together from all of them. */
import type {
  BrokerReport,
  BrokerStorage,
  ClientMetricsFilter,
  ConsumerGroup,
  ConsumerGroupSummary,
  DescribedConsumerGroup,
  MeasuredClients,
  QuotaUsage,
} from "@millrace/domain";
import { BrokerError } from "./broker-error.ts";
import type { BrokerGroups, GroupPage, GroupRange } from "./broker-groups.ts";
import type { BrokerHttp, SettingsChange } from "./broker-http.ts";
import type { BrokerRecords } from "./broker-records.ts";
import type { BrokerSettings } from "./broker-setting.ts";
import type { BrokerTopics } from "./broker-topics.ts";
import type { CatchUpAnswer } from "./catch-up.ts";
import { mergeMeasuredClients } from "./client-metrics.ts";
import { mergeCatchUp } from "./merge-catch-up.ts";
import { mergeSettings } from "./merge-settings.ts";
import type { BrokerMetrics } from "./open-metrics.ts";

/** Public methods only, so that something else than the class can have them. */
type Public<T> = Pick<T, keyof T>;

/** What can be asked of a cluster, whether it has one broker or several. Methods throw `BrokerError`. */
export interface ClusterHttp
  extends Pick<
    BrokerHttp,
    | "settings"
    | "changeSettings"
    | "catchUp"
    | "storage"
    | "quotaUsage"
    | "clientMetrics"
    | "brokerMetrics"
    | "brokerReports"
    | "cluster"
    | "listUsers"
    | "describeUser"
    | "putPassword"
    | "removeCredentials"
    | "listAcls"
    | "createAcls"
    | "deleteAcl"
    | "listQuotas"
    | "alterQuota"
  > {
  readonly records: Public<BrokerRecords>;
  readonly topics: Public<BrokerTopics>;
  readonly groups: Public<BrokerGroups>;
}

/** A cluster by its brokers, of which there is at least one. Of several, one that serves is looked for first. */
export async function clusterHttp(brokers: readonly BrokerHttp[]): Promise<ClusterHttp> {
  const [first] = brokers;
  if (first === undefined) throw new BrokerError("unreachable", "the cluster has no broker");
  if (brokers.length === 1) return first;
  const serving = brokers.map(async (broker) => {
    if (await broker.ready()) return broker;
    throw new BrokerError("not_ready", "the broker does not serve");
  });
  // Where none serves, the first one says why.
  return new SeveralBrokers(await Promise.any(serving).catch(() => first), brokers);
}

class SeveralBrokers implements ClusterHttp {
  readonly #any: BrokerHttp;
  readonly #all: readonly BrokerHttp[];
  readonly groups: ClusterHttp["groups"];

  constructor(any: BrokerHttp, all: readonly BrokerHttp[]) {
    this.#any = any;
    this.#all = all;
    this.groups = new GroupsOfSeveral(all);
  }

  get records() {
    return this.#any.records;
  }
  get topics() {
    return this.#any.topics;
  }
  cluster: ClusterHttp["cluster"] = () => this.#any.cluster();
  listUsers: ClusterHttp["listUsers"] = () => this.#any.listUsers();
  describeUser: ClusterHttp["describeUser"] = (name) => this.#any.describeUser(name);
  putPassword: ClusterHttp["putPassword"] = (...change) => this.#any.putPassword(...change);
  removeCredentials: ClusterHttp["removeCredentials"] = (...change) =>
    this.#any.removeCredentials(...change);
  listAcls: ClusterHttp["listAcls"] = (filter) => this.#any.listAcls(filter);
  createAcls: ClusterHttp["createAcls"] = (acls) => this.#any.createAcls(acls);
  deleteAcl: ClusterHttp["deleteAcl"] = (acl) => this.#any.deleteAcl(acl);
  listQuotas: ClusterHttp["listQuotas"] = () => this.#any.listQuotas();
  alterQuota: ClusterHttp["alterQuota"] = (...change) => this.#any.alterQuota(...change);

  /** What the brokers that answer have in common. */
  async settings(): Promise<BrokerSettings> {
    return mergeSettings(await answersOf(this.#all, (broker) => broker.settings()));
  }

  /** At every broker. One that does not answer keeps none of the others from it, and fails the call in the end. */
  async changeSettings(change: SettingsChange): Promise<void> {
    const results = await Promise.allSettled(
      this.#all.map((broker) => broker.changeSettings(change)),
    );
    const failures = results.flatMap((result) =>
      result.status === "rejected" ? [result.reason as unknown] : [],
    );
    // A refusal says more than that somebody does not answer.
    const refusal = failures.find((error) => error instanceof BrokerError && !error.retryable);
    if (failures.length > 0) throw refusal ?? failures[0];
  }

  async catchUp(): Promise<CatchUpAnswer> {
    return mergeCatchUp(await answersOf(this.#all, (broker) => broker.catchUp()));
  }

  /** Of the broker whose write-ahead log is fullest. */
  async storage(): Promise<BrokerStorage> {
    const all = await answersOf(this.#all, (broker) => broker.storage());
    const fill = ({ walUsedBytes, walCapacityBytes }: BrokerStorage) =>
      walUsedBytes / walCapacityBytes;
    const fullest = all.reduce((most, each) => (fill(each) > fill(most) ? each : most));
    const waiting = all.find(({ uploadsWaitFor }) => uploadsWaitFor !== undefined);
    return { ...fullest, uploadsWaitFor: fullest.uploadsWaitFor ?? waiting?.uploadsWaitFor };
  }

  /** A quota holds at each broker: of the same one, where the most of it is used. */
  async quotaUsage(): Promise<QuotaUsage[]> {
    const used = new Map<string, QuotaUsage>();
    for (const usage of (await answersOf(this.#all, (broker) => broker.quotaUsage())).flat()) {
      const key = JSON.stringify([usage.quota, usage.user, usage.clientId]);
      const known = used.get(key);
      if (known === undefined || usage.rate > known.rate) used.set(key, usage);
    }
    return [...used.values()];
  }

  /** A client pushes to one broker at a time. */
  async clientMetrics(filter: ClientMetricsFilter): Promise<MeasuredClients> {
    const answers = await answersOf(this.#all, (broker) => broker.clientMetrics(filter));
    return mergeMeasuredClients(answers, filter.limit);
  }

  /** Of the brokers that answer. */
  async brokerReports(): Promise<BrokerReport[]> {
    return (await answersOf(this.#all, (broker) => broker.brokerReports())).flat();
  }

  async brokerMetrics(): Promise<BrokerMetrics[]> {
    return (await answersOf(this.#all, (broker) => broker.brokerMetrics())).flat();
  }
}

/** Each broker answers for the groups that it coordinates. */
class GroupsOfSeveral {
  readonly #all: readonly BrokerHttp[];

  constructor(all: readonly BrokerHttp[]) {
    this.#all = all;
  }

  async list(range: GroupRange = {}): Promise<GroupPage<ConsumerGroup>> {
    return mergePages(await answersOf(this.#all, ({ groups }) => groups.list(range)), range);
  }

  async summaries(range: GroupRange = {}): Promise<GroupPage<ConsumerGroupSummary>> {
    return mergePages(await answersOf(this.#all, ({ groups }) => groups.summaries(range)), range);
  }

  async describe(groupId: string): Promise<DescribedConsumerGroup> {
    try {
      return await Promise.any(this.#all.map(({ groups }) => groups.describe(groupId)));
    } catch (error) {
      const failures = error instanceof AggregateError ? error.errors : [error];
      // A broker that did not answer may be the one that has it.
      throw failures.find((each) => !isGroupNotFound(each)) ?? failures[0];
    }
  }
}

function isGroupNotFound(error: unknown): boolean {
  return error instanceof BrokerError && error.code === "group_not_found";
}

/**
 * One page of several, in order of the groups' ids. It ends before what a broker has not told yet, and where it has as many
 * groups as were asked for.
 */
function mergePages<T extends { readonly groupId: string }>(
  pages: readonly GroupPage<T>[],
  { limit }: GroupRange,
): GroupPage<T> {
  const byId = new Map(pages.flatMap((page) => page.groups.map((group) => [group.groupId, group])));
  const [end] = pages.flatMap(({ next }) => next ?? []).sort(byBytes);
  const known = [...byId.values()]
    .filter(({ groupId }) => end === undefined || byBytes(groupId, end) <= 0)
    .sort((a, b) => byBytes(a.groupId, b.groupId));
  const groups = known.slice(0, limit);
  const isLast = end === undefined && groups.length === known.length;
  return { groups, next: isLast ? undefined : groups.at(-1)?.groupId };
}

/** Brokers order ids by their bytes. */
function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** The answers of those brokers that answer. Throws the first failure where none does. */
async function answersOf<T>(
  brokers: readonly BrokerHttp[],
  ask: (broker: BrokerHttp) => Promise<T>,
): Promise<[T, ...T[]]> {
  const results = await Promise.allSettled(brokers.map(ask));
  const [first, ...others] = results.flatMap((result) =>
    result.status === "fulfilled" ? [{ value: result.value }] : [],
  );
  if (first !== undefined) return [first.value, ...others.map(({ value }) => value)];
  const failure = results.find((result) => result.status === "rejected");
  throw failure?.reason ?? new BrokerError("unreachable", "the cluster has no broker");
}
