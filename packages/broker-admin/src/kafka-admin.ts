import type {
  ConsumerGroup,
  DescribedTopic,
  Topic,
  TopicConfig,
  TopicConfigSource,
} from "@millrace/domain";
import {
  type ClusterMetadata,
  type ConfigDescription,
  ConfigResourceTypes,
  ConfigSources,
  IncrementalAlterConfigOperationTypes,
  UserError,
} from "@platformatic/kafka";
import { BrokerError, toBrokerError, withDeadline } from "./broker-error.ts";
import { describeGroups, type PickGroups } from "./group-lag.ts";
import { connectionOptions, type KafkaAddress, survivingResets } from "./kafka-client.ts";
import { OfflineTolerantAdmin } from "./offline-partitions.ts";

/** A local broker answers in milliseconds, one over the Internet in a second or two. */
const CONNECT_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 10_000;
/** A topic can vanish between listing and describing; the listing is repeated this often. */
const LIST_ATTEMPTS_MAX = 3;

export interface NewTopic {
  readonly name: string;
  readonly partitions: number;
  readonly configs: Readonly<Record<string, string>>;
}

/** What shall change of a topic's settings; null is the default again. */
export type TopicConfigChanges = Readonly<Record<string, string | null>>;

/**
 * Kafka's admin protocol, as far as the control plane uses it. One instance is one client with its
 * connections: `close` it, or use `withKafkaAdmin`. Every method throws `BrokerError`.
 */
export class KafkaAdmin {
  readonly #admin: OfflineTolerantAdmin;
  readonly #timeoutMs: number;

  constructor(address: KafkaAddress) {
    this.#timeoutMs = address.timeoutMs ?? REQUEST_TIMEOUT_MS;
    this.#admin = survivingResets(
      new OfflineTolerantAdmin({
        clientId: "millrace-control-plane",
        ...connectionOptions(address),
        connectTimeout: Math.min(CONNECT_TIMEOUT_MS, this.#timeoutMs),
        requestTimeout: this.#timeoutMs,
        timeout: this.#timeoutMs,
        // Callers retry with their own bound and their own idea of what a retry may do.
        retries: 0,
        autocreateTopics: false,
      }),
    );
  }

  async createTopic(topic: NewTopic): Promise<void> {
    await this.#run(`create topic ${topic.name}`, () =>
      this.#admin.createTopics({
        topics: [topic.name],
        partitions: topic.partitions,
        replicas: -1,
        configs: Object.entries(topic.configs).map(([name, value]) => ({ name, value })),
      }),
    );
  }

  async deleteTopic(name: string): Promise<void> {
    await this.#run(`delete topic ${name}`, () => this.#admin.deleteTopics({ topics: [name] }));
  }

  /** Names in order; internal topics (`__…`) only when asked for. */
  async topicNames(options: { includeInternal?: boolean } = {}): Promise<string[]> {
    const { names } = await this.#run("list topics", () => this.#admin.topicListing());
    return names.filter((name) => options.includeInternal || !name.startsWith("__"));
  }

  /** All topics of users, in order of their names. */
  async listTopics(): Promise<Topic[]> {
    return await this.#withoutVanished(async () => {
      const names = await this.topicNames();
      const metadata = await this.#metadataOf(names);
      return names.flatMap((name) => topicOf(name, metadata));
    });
  }

  async describeTopic(name: string): Promise<DescribedTopic> {
    const [topic] = topicOf(name, await this.#metadataOf([name]));
    if (topic === undefined) throw topicNotFound(name);
    const configs = await this.describeTopicConfigs([name]);
    return { ...topic, configs: configs.get(name) ?? {} };
  }

  /** Every setting of each topic, defaults included: one request, however many topics. */
  async describeTopicConfigs(
    names: readonly string[],
  ): Promise<Map<string, Readonly<Record<string, TopicConfig>>>> {
    if (names.length === 0) return new Map();
    const resources = names.map((resourceName) => ({
      resourceType: ConfigResourceTypes.TOPIC,
      resourceName,
      configurationKeys: null,
    }));
    const described = await this.#run(`describe the configuration of ${countOf(names)}`, () =>
      this.#admin.describeConfigs({ resources }),
    );
    return new Map(described.map((resource) => [resource.resourceName, configsOf(resource)]));
  }

  /** Sets a topic's settings, or takes them back to their defaults; all or none (KIP-339). */
  async alterTopicConfigs(
    name: string,
    changes: TopicConfigChanges,
    options: { validateOnly?: boolean } = {},
  ): Promise<void> {
    const { SET, DELETE } = IncrementalAlterConfigOperationTypes;
    const configs = Object.entries(changes).map(([key, value]) =>
      value === null
        ? { name: key, configOperation: DELETE }
        : { name: key, value, configOperation: SET },
    );
    if (configs.length === 0) return;
    const resourceType = ConfigResourceTypes.TOPIC;
    await this.#run(`change settings of topic ${name}`, () =>
      this.#admin.incrementalAlterConfigs({
        resources: [{ resourceType, resourceName: name, configs }],
        validateOnly: options.validateOnly ?? false,
      }),
    );
  }

  /** Grows a topic to `partitions` in all. `invalid_partitions` where that is no growth. */
  async createPartitions(
    name: string,
    partitions: number,
    options: { validateOnly?: boolean } = {},
  ): Promise<void> {
    await this.#run(`add partitions to topic ${name}`, () =>
      this.#admin.createPartitions({
        topics: [{ name, count: partitions, assignments: null }],
        validateOnly: options.validateOnly ?? false,
      }),
    );
  }

  /**
   * Consumer groups with their state and, per partition they have committed, their lag. The broker describes
   * only those that `pick` chooses of all ids, which are in order.
   */
  async listConsumerGroups(pick: PickGroups = (ids) => ids): Promise<ConsumerGroup[]> {
    return await this.#run("list consumer groups", () => describeGroups(this.#admin, pick));
  }

  async close(): Promise<void> {
    try {
      await withDeadline(this.#admin.close(), CONNECT_TIMEOUT_MS, "close the Kafka client");
    } catch {
      // A connection that cannot be closed politely is closed by the process's end at the latest.
    }
  }

  /** Repeats a listing of which a topic vanished in between. */
  async #withoutVanished<T>(list: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await list();
      } catch (error) {
        const vanished = error instanceof BrokerError && error.code === "topic_not_found";
        if (!vanished || attempt === LIST_ATTEMPTS_MAX) throw error;
      }
    }
  }

  async #metadataOf(names: readonly string[]): Promise<ClusterMetadata | undefined> {
    if (names.length === 0) return undefined;
    return await this.#run("describe topics", async () => {
      try {
        return await this.#admin.metadata({
          topics: [...names],
          forceUpdate: true,
          autocreateTopics: false,
        });
      } catch (error) {
        // The client reports a topic that does not exist as its user's mistake, and nothing else so.
        if (error instanceof UserError) throw topicNotFound(names.join(", "), error);
        throw error;
      }
    });
  }

  async #run<T>(action: string, work: () => Promise<T>): Promise<T> {
    try {
      return await withDeadline(work(), this.#timeoutMs, action);
    } catch (error) {
      throw toBrokerError(error, action);
    }
  }
}

function topicOf(name: string, metadata: ClusterMetadata | undefined): Topic[] {
  const topic = metadata?.topics.get(name);
  if (topic === undefined) return [];
  return [
    {
      name,
      topicId: topic.id,
      partitions: topic.partitionsCount,
      replicationFactor: topic.partitions[0]?.replicas.length ?? 0,
    },
  ];
}

const SOURCES: Readonly<Record<number, TopicConfigSource>> = {
  [ConfigSources.DYNAMIC_TOPIC_CONFIG]: "topic",
  [ConfigSources.DYNAMIC_BROKER_CONFIG]: "broker",
  [ConfigSources.DYNAMIC_DEFAULT_BROKER_CONFIG]: "broker",
  [ConfigSources.STATIC_BROKER_CONFIG]: "broker",
};

function configsOf({ configs }: ConfigDescription): Record<string, TopicConfig> {
  return Object.fromEntries(
    configs.map(({ name, value, configSource }) => [
      name,
      { value: value ?? null, source: SOURCES[configSource] ?? "default" },
    ]),
  );
}

function countOf(names: readonly string[]): string {
  return names.length === 1 ? `topic ${names[0]}` : `${names.length} topics`;
}

function topicNotFound(name: string, cause?: Error): BrokerError {
  return new BrokerError("topic_not_found", `there is no topic ${name}`, { cause });
}

/** Runs `work` with a client of its own that is closed afterwards, whatever happens. */
export async function withKafkaAdmin<T>(
  address: KafkaAddress,
  work: (admin: KafkaAdmin) => Promise<T>,
): Promise<T> {
  const admin = new KafkaAdmin(address);
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
}
