/** A Millrace broker of the test's own with one listener without protection, which the test may kill and start again. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ApacheKafka } from "./apache-kafka.ts";
import { freePort } from "./protected-broker.ts";

const program =
  process.env.MILLRACE_BROKER_BIN ??
  join(import.meta.dirname, "../../dataplane/target/release/millrace");
const READY_SECONDS_MAX = 60;
const STOP_SECONDS_MAX = 30;

export const PEERS = ["millrace", "kafka"] as const;
export type Peer = (typeof PEERS)[number];

/** A broker that a test runs, of either kind. */
export interface RunningBroker {
  readonly bootstrap: string;
  readonly pid: number | undefined;
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
    get pid() {
      return kafka.pid;
    },
    start: () => kafka.start(),
    kill: () => kafka.kill(),
    remove: () => kafka.remove(),
  };
}

/** What a broker has of its own in a cluster of several. */
export interface NodeOptions {
  node?: number;
  /** The folder that is the bucket; one of its own where absent. */
  objects?: string;
  further?: string[];
}

export class PlainBroker implements RunningBroker {
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-plain-"));
  readonly #options: NodeOptions;
  #port = 0;
  #process: ChildProcess | undefined;
  #log = "";

  constructor(options: NodeOptions = {}) {
    this.#options = options;
  }

  get bootstrap(): string {
    return `localhost:${this.#port}`;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  async create(): Promise<void> {
    this.#port = await freePort();
    mkdirSync(join(this.#folder, "wal"));
    writeFileSync(this.#properties, this.#settings());
    await this.start();
  }

  async start(): Promise<void> {
    this.#log = "";
    const child = spawn(program, ["broker", "--config", this.#properties]);
    this.#process = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        this.#log = (this.#log + chunk).slice(-8_000);
      });
    }
    await once(child, "spawn");
    for (let tenths = 0; tenths < READY_SECONDS_MAX * 10; tenths++) {
      if (this.#log.includes("the broker is ready")) return;
      if (child.exitCode !== null) break;
      await sleep(100);
    }
    throw new Error(`the broker does not serve: ${this.#log}`);
  }

  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** @throws Error where the broker does not stop by itself, or ended before. */
  async remove(): Promise<void> {
    const code = await this.#end("SIGTERM");
    rmSync(this.#folder, { recursive: true });
    if (code !== 0) throw new Error(`the broker ended with ${code}: ${this.#log}`);
  }

  get #properties(): string {
    return join(this.#folder, "server.properties");
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
      return child?.exitCode ?? null;
    }
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_SECONDS_MAX * 1_000);
    const ended = once(child, "close");
    child.kill(signal);
    await ended;
    clearTimeout(timer);
    return child.exitCode;
  }

  #settings(): string {
    const { node = 1, objects = join(this.#folder, "objects"), further = [] } = this.#options;
    return [
      `node.id=${node}`,
      `listeners=PLAINTEXT://127.0.0.1:${this.#port}`,
      `advertised.listeners=PLAINTEXT://localhost:${this.#port}`,
      "admin.listener=none",
      "group.initial.rebalance.delay.ms=0",
      `data.dir=${join(this.#folder, "data")}`,
      `s3.wal.path=0@file://${join(this.#folder, "wal/wal")}?capacity=67108864&iodepth=4`,
      `s3.data.buckets=0@file://${objects}`,
      "s3.wal.cache.size=32MiB",
      "s3.block.cache.size=16MiB",
      ...further,
      "",
    ].join("\n");
  }
}
