/** Sends the same request to Millrace and to Apache Kafka and collects what differs in the answers. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Json } from "../../product.ts";
import { PEERS, type Peer } from "../plain-broker.ts";
import { differences, type FieldDifference, type Names } from "./comparison.ts";
import type { Wire, WireReply } from "./wire.ts";

/** A difference, once for every API, scenario's step, field and pair of values. */
export interface Difference extends FieldDifference {
  api: string;
  /** What the request does, with the scenario. */
  step: string;
  versions: number[];
  /** The first that caused it. */
  request: string;
}

export type Answers = Record<Peer, Json>;
/** The versions that a scenario's requests have: the oldest or newest of both brokers, or any, by chance. */
export type Age = "oldest" | "newest" | (() => number);

/** A request's fields, or what they are in each version. */
export type Body = Record<string, unknown> | ((version: number) => Json);

export interface SendOptions {
  version?: number;
  connection?: string;
  /** False where the broker may have closed the connection, and must not be asked over another one. */
  reconnects?: boolean;
  /** Ids to be named by what they are in both clusters: `@name` stands for them in later requests. */
  ids?: Record<string, (answer: Json) => unknown>;
  /** Asks again while the answers differ: the request reads what may still be on its way. */
  settles?: boolean;
  /** Differences of these do not count: the request only prepares. */
  unchecked?: boolean;
}

/**
 * NOT_LEADER_OR_FOLLOWER, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR and
 * CONCURRENT_TRANSACTIONS: clients ask again.
 */
const TRANSIENT = /"errorCode":(6|14|15|16|51)\b/;
const TRANSIENT_TRIES_MAX = 30;
const SETTLE_TRIES_MAX = 5;
const SETTLE_MS = 100;
const NO_ID = "AAAAAAAAAAAAAAAAAAAAAA";
const REQUEST_TEXT_MAX = 600;

/** APIs that only read. */
const READS =
  /^(Metadata|Describe|List|OffsetFetch|Fetch|OffsetForLeaderEpoch|FindCoordinator|ApiVersions|ConsumerGroupDescribe|GetTelemetry)/;

export class Scene {
  readonly #wire: Wire;
  readonly #addresses: Record<Peer, string>;
  readonly #ranges: Map<string, [number, number]>;
  readonly #found: Map<string, Difference>;
  readonly #age: Age;
  readonly #names: Record<Peer, Names> = { millrace: new Map(), kafka: new Map() };
  readonly #ids: Record<Peer, Map<string, unknown>> = { millrace: new Map(), kafka: new Map() };
  /** Distinguishes this run's topics and groups from those of other runs against the same brokers. */
  readonly prefix: string;
  scenario = "";
  requests = 0;

  constructor(
    wire: Wire,
    addresses: Record<Peer, string>,
    ranges: Map<string, [number, number]>,
    found: Map<string, Difference>,
    run: { age: Age; prefix: string },
  ) {
    this.#wire = wire;
    this.#addresses = addresses;
    this.#ranges = ranges;
    this.#found = found;
    this.#age = run.age;
    this.prefix = run.prefix;
  }

  /** A name of this run. */
  name(name: string): string {
    return `${this.prefix}${name}`;
  }

  serves(api: string): boolean {
    return this.#ranges.has(api);
  }

  /** The version in which the next request of this API goes. */
  version(api: string, { min = 0, max = 99 } = {}): number {
    const [oldest, newest] = this.#ranges.get(api) ?? [0, 0];
    const [from, to] = [Math.max(oldest, min), Math.min(newest, max)];
    if (this.#age === "oldest") return from;
    if (this.#age === "newest") return to;
    return from + Math.floor(this.#age() * (to - from + 1));
  }

  /**
   * Sends a request to both and compares the answers.
   * @param step what the request does, unique in its scenario.
   */
  async send(step: string, api: string, body: Body, options: SendOptions = {}): Promise<Answers> {
    const nothing: Answers = { millrace: {}, kafka: {} };
    if (!this.serves(api)) return nothing;
    const version = options.version ?? this.version(api);
    const request = typeof body === "function" ? body(version) : body;
    const settles = options.settles ?? READS.test(api);
    for (let tries = 1; ; tries++) {
      const replies = await this.#sendBoth(api, version, request, options);
      this.#learn(replies, options.ids ?? {});
      const fields = this.#compare(replies);
      if (fields.length > 0 && settles && tries < SETTLE_TRIES_MAX) {
        await sleep(SETTLE_MS);
        continue;
      }
      if (!options.unchecked) this.#report(step, api, version, request, fields);
      return { millrace: bodyOf(replies.millrace), kafka: bodyOf(replies.kafka) };
    }
  }

  /** Repeats a request, uncompared, until both answers are so. @throws Error where they never are. */
  async until(
    api: string,
    body: Body,
    holds: (answer: Json) => boolean,
    options: SendOptions = {},
  ): Promise<void> {
    if (!this.serves(api)) return;
    const unchecked = { ...options, unchecked: true, settles: false };
    for (let tries = 0; tries < 50; tries++) {
      const answers = await this.send("prepare", api, body, unchecked);
      if (PEERS.every((peer) => holds(answers[peer]))) return;
      await sleep(100);
    }
    throw new Error(`${this.scenario}: the answers to ${api} are not what the scenario needs`);
  }

  /** The client behind this connection goes away. */
  disconnect(connection: string): void {
    for (const peer of PEERS) this.#wire.close(this.#addresses[peer], this.prefix + connection);
  }

  note(step: string, api: string, field: FieldDifference, version: number, request = ""): void {
    const key = [this.scenario, step, api, field.path, field.millrace, field.kafka].join("|");
    const known = this.#found.get(key);
    if (known === undefined) {
      const named = `${this.scenario}: ${step}`;
      this.#found.set(key, { ...field, api, step: named, versions: [version], request });
    } else if (!known.versions.includes(version)) {
      known.versions.push(version);
    }
  }

  async #sendBoth(
    api: string,
    version: number,
    body: Json,
    options: SendOptions,
  ): Promise<Record<Peer, WireReply>> {
    this.requests += 1;
    const send = async (peer: Peer) => {
      for (let tries = 1; ; tries++) {
        const reply = await this.#wire.send({
          to: this.#addresses[peer],
          connection: this.prefix + (options.connection ?? "main"),
          api,
          version,
          body: this.#withIds(peer, body),
          reconnects: options.reconnects ?? true,
        });
        const isTransient = TRANSIENT.test(JSON.stringify(reply));
        if (!isTransient || tries === TRANSIENT_TRIES_MAX) return reply;
        await sleep(SETTLE_MS);
      }
    };
    const [millrace, kafka] = await Promise.all([send("millrace"), send("kafka")]);
    for (const reply of [millrace, kafka]) {
      if ("error" in reply && reply.error === "invalid") {
        this.note(
          "request",
          api,
          { path: "(request)", millrace: reply.message, kafka: reply.message },
          version,
        );
      }
    }
    return { millrace, kafka };
  }

  #withIds(peer: Peer, value: Json): Json {
    if (Array.isArray(value)) return value.map((element) => this.#withIds(peer, element));
    if (typeof value === "object" && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([key, field]) => [key, this.#withIds(peer, field)]),
      );
    }
    if (typeof value !== "string" || !value.startsWith("@")) return value;
    const id = this.#ids[peer].get(value.slice(1));
    // What a broker did not hand out: the request is wrong in the same way for both.
    return id === undefined ? (value.includes("topic") ? "AAAAAAAAAAAAAAAAAAAAAQ" : "77") : id;
  }

  #learn(replies: Record<Peer, WireReply>, ids: Required<SendOptions>["ids"]): void {
    for (const peer of PEERS) {
      const body = bodyOf(replies[peer]);
      for (const [name, find] of Object.entries(ids)) {
        let id: unknown;
        try {
          id = find(body);
        } catch {
          continue;
        }
        if (id === undefined || id === null || id === "" || id === NO_ID || (id as number) < 0)
          continue;
        this.#ids[peer].set(name, id);
        // A small number may stand for anything.
        if (typeof id === "string") this.#names[peer].set(`string:${id}`, `<${name}>`);
      }
    }
  }

  #compare({ millrace, kafka }: Record<Peer, WireReply>): FieldDifference[] {
    const names = this.#names;
    if ("body" in millrace && "body" in kafka) {
      const fields = differences(millrace.body, kafka.body, names);
      if (millrace.left > 0)
        fields.push({ path: "(bytes after the end)", millrace: String(millrace.left), kafka: "0" });
      return fields;
    }
    const shown = (reply: WireReply) => ("error" in reply ? reply.error : "answered");
    if (shown(millrace) === shown(kafka)) return [];
    return [{ path: "(answer)", millrace: shown(millrace), kafka: shown(kafka) }];
  }

  #report(step: string, api: string, version: number, body: Json, fields: FieldDifference[]): void {
    const request = JSON.stringify(body).replaceAll(this.prefix, "").slice(0, REQUEST_TEXT_MAX);
    for (const field of fields) {
      const plain = (text: string) => text.replaceAll(this.prefix, "");
      const named = {
        path: plain(field.path),
        millrace: plain(field.millrace),
        kafka: plain(field.kafka),
      };
      this.note(step, api, named, version, request);
    }
  }
}

function bodyOf(reply: WireReply): Json {
  return "body" in reply ? reply.body : {};
}
