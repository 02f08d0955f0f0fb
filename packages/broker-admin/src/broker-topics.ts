import type { DescribedTopic, Topic, TopicConfig, TopicConfigSource } from "@millrace/domain";
import { z } from "zod";
import type { AdminTransport } from "./admin-transport.ts";

/** Creating thousands of partitions takes seconds; so does a broker under load. */
const TIMEOUT_MS = 10_000;
/** A thousand topics with forty settings each, of about 100 bytes. */
const BYTES_MAX = 16 * 1024 * 1024;
/** Topics of one page at most; the broker's own bound. */
const PAGE_TOPICS_MAX = 1_000;

export interface NewTopic {
  readonly name: string;
  readonly partitions: number;
  readonly configs: Readonly<Record<string, string>>;
}

/** What shall change of a topic's settings; null is the default again. */
export type TopicConfigChanges = Readonly<Record<string, string | null>>;

/** What shall change of a topic; what is absent stays. */
export interface TopicChanges {
  readonly configs?: TopicConfigChanges;
  /** In all: `invalid_partitions` where that is no growth. */
  readonly partitions?: number | undefined;
}

/** Which topics of all, in order of their names. */
export interface TopicRange {
  /** Only names that come after this one. */
  readonly after?: string | undefined;
  readonly limit?: number;
  /** Also topics whose names begin with two underscores. */
  readonly includeInternal?: boolean;
}

/** `next` is the name to go on `after`; undefined on the last page. */
export interface TopicPage<T> {
  readonly topics: T[];
  readonly next: string | undefined;
}

const config = z.object({ value: z.string().nullable(), source: z.string() });

const topic = z.object({
  name: z.string(),
  topic_id: z.string(),
  partition_count: z.int().nonnegative(),
  replication_factor: z.int().nonnegative(),
});

const describedTopic = topic.extend({ configs: z.record(z.string(), config) });

const pageOf = <T extends z.ZodType>(one: T) =>
  z.object({ topics: z.array(one), next: z.string().nullable() });
const TopicPageAnswer = pageOf(topic);
const DescribedTopicPageAnswer = pageOf(describedTopic);

/** Topics of a broker over its admin HTTP. Methods throw `BrokerError`. */
export class BrokerTopics {
  readonly #transport: AdminTransport;

  constructor(transport: AdminTransport) {
    this.#transport = transport;
  }

  /** `topic_exists`, `invalid_topic_name`, `invalid_partitions`, `invalid_config`. */
  async create(topic: NewTopic): Promise<void> {
    await this.#send("POST", "/v1/topics", topic);
  }

  /** With all its records. */
  async delete(name: string): Promise<void> {
    await this.#send("DELETE", pathOf(name));
  }

  async list(range: TopicRange = {}): Promise<TopicPage<Topic>> {
    const answer = await this.#transport.json(listPath(range), TopicPageAnswer, BOUNDS);
    return { topics: answer.topics.map(topicOf), next: answer.next ?? undefined };
  }

  /** Each with every setting. */
  async listDescribed(range: TopicRange = {}): Promise<TopicPage<DescribedTopic>> {
    const path = listPath(range, "configs");
    const answer = await this.#transport.json(path, DescribedTopicPageAnswer, BOUNDS);
    return { topics: answer.topics.map(describedTopicOf), next: answer.next ?? undefined };
  }

  /** Names in order. */
  async names(range: Omit<TopicRange, "after" | "limit"> = {}): Promise<string[]> {
    const names: string[] = [];
    let after: string | undefined;
    do {
      const { topics, next } = await this.list({ ...range, after });
      names.push(...topics.map(({ name }) => name));
      after = next;
    } while (after !== undefined);
    return names;
  }

  async describe(name: string): Promise<DescribedTopic> {
    const path = `${pathOf(name)}?include=configs`;
    return describedTopicOf(await this.#transport.json(path, describedTopic, BOUNDS));
  }

  /** Changes settings, then adds partitions; the broker checks both before it does either. */
  async change(
    name: string,
    { configs = {}, partitions }: TopicChanges,
    options: { validateOnly?: boolean } = {},
  ): Promise<void> {
    const entries = Object.entries(configs);
    if (entries.length === 0 && partitions === undefined) return;
    await this.#send("PATCH", pathOf(name), {
      set: Object.fromEntries(entries.filter(([, value]) => value !== null)),
      unset: entries.filter(([, value]) => value === null).map(([key]) => key),
      ...(partitions !== undefined && { partitions }),
      validate_only: options.validateOnly ?? false,
    });
  }

  async #send(method: "POST" | "PATCH" | "DELETE", path: string, body?: object): Promise<void> {
    await this.#transport.text(path, {
      ...BOUNDS,
      method,
      ...(body && { body: JSON.stringify(body) }),
    });
  }
}

const BOUNDS = { timeoutMs: TIMEOUT_MS, bytesMax: BYTES_MAX } as const;

/** By Kafka's names. */
const SOURCES: Readonly<Record<string, TopicConfigSource>> = {
  DYNAMIC_TOPIC_CONFIG: "topic",
  DYNAMIC_BROKER_CONFIG: "broker",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "broker",
  STATIC_BROKER_CONFIG: "broker",
};

function topicOf(answer: z.infer<typeof topic>): Topic {
  return {
    name: answer.name,
    topicId: answer.topic_id,
    partitions: answer.partition_count,
    replicationFactor: answer.replication_factor,
  };
}

function describedTopicOf(answer: z.infer<typeof describedTopic>): DescribedTopic {
  const configs = Object.entries(answer.configs).map(
    ([name, { value, source }]): [string, TopicConfig] => [
      name,
      { value, source: SOURCES[source] ?? "default" },
    ],
  );
  return { ...topicOf(answer), configs: Object.fromEntries(configs) };
}

function pathOf(name: string): string {
  return `/v1/topics/${encodeURIComponent(name)}`;
}

function listPath({ after, limit, includeInternal }: TopicRange, include?: string): string {
  const query = new URLSearchParams({ limit: String(limit ?? PAGE_TOPICS_MAX) });
  if (after !== undefined) query.set("after", after);
  if (includeInternal) query.set("internal", "true");
  if (include !== undefined) query.set("include", include);
  return `/v1/topics?${query}`;
}
