/** A Millrace broker of the test's own with one listener without protection, which the test may kill and start again. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApacheKafka } from "./apache-kafka.ts";
import { BrokerProcess } from "./broker-process.ts";
import { freePort } from "./protected-broker.ts";

export const PEERS = ["millrace", "kafka"] as const;
export type Peer = (typeof PEERS)[number];

/** A broker that a test runs, of either kind. */
export interface RunningBroker {
  readonly bootstrap: string;
  start(): Promise<void>;
  /** As a crash does: nothing is written any more. */
  kill(): Promise<void>;
  remove(): Promise<void>;
}

/** @param further lines of the properties file that both kinds know. */
export async function startBroker(peer: Peer, ...further: string[]): Promise<RunningBroker> {
  if (peer === "millrace") {
    const broker = new PlainBroker({ further });
    await broker.create();
    return broker;
  }
  const kafka = new ApacheKafka({ authorizer: false, further });
  await kafka.create();
  return {
    bootstrap: kafka.bootstrap("PLAINTEXT"),
    start: () => kafka.start(),
    kill: () => kafka.kill(),
    remove: () => kafka.remove(),
  };
}

/** What a broker has of its own in a cluster of several. */
export interface NodeOptions {
  node?: number;
  /** The value of `s3.data.buckets`; a folder of its own where absent. */
  bucket?: string;
  further?: string[];
  /** Parameters of the log's address. */
  log?: string;
}

const SMALL_LOG = "capacity=67108864&iodepth=4";

export function folderAsBucket(folder: string): string {
  return `0@file://${folder}`;
}

export class PlainBroker implements RunningBroker {
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-plain-"));
  readonly #options: NodeOptions;
  readonly #process = new BrokerProcess();
  #port = 0;

  constructor(options: NodeOptions = {}) {
    this.#options = options;
  }

  get bootstrap(): string {
    return `localhost:${this.#port}`;
  }

  async create(): Promise<void> {
    this.#port = await freePort();
    mkdirSync(join(this.#folder, "wal"));
    writeFileSync(this.#properties, this.#settings());
    await this.start();
  }

  async start(): Promise<void> {
    await this.#process.startMillrace(this.#properties);
  }

  async kill(): Promise<void> {
    await this.#process.kill();
  }

  /** @throws Error where the broker does not stop by itself, or ended before. */
  async remove(): Promise<void> {
    await this.#process.stop().finally(() => rmSync(this.#folder, { recursive: true }));
  }

  get #properties(): string {
    return join(this.#folder, "server.properties");
  }

  #settings(): string {
    const { node = 1, further = [], log = SMALL_LOG } = this.#options;
    const { bucket = folderAsBucket(join(this.#folder, "objects")) } = this.#options;
    return [
      `node.id=${node}`,
      `listeners=PLAINTEXT://127.0.0.1:${this.#port}`,
      `advertised.listeners=PLAINTEXT://localhost:${this.#port}`,
      "admin.listener=none",
      "group.initial.rebalance.delay.ms=0",
      `data.dir=${join(this.#folder, "data")}`,
      `s3.wal.path=0@file://${join(this.#folder, "wal/wal")}?${log}`,
      `s3.data.buckets=${bucket}`,
      "s3.wal.cache.size=32MiB",
      "s3.block.cache.size=16MiB",
      ...further,
      "",
    ].join("\n");
  }
}
