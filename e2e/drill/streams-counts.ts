/** A windowed count by Kafka Streams with exactly_once_v2, in two instances, of an input that is known. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Admin } from "@platformatic/kafka";
import { JavaProgram } from "../kafka/clients/java-program.ts";
import { checkCounts, type Keyed } from "./streams-history.ts";

const [INPUT, OUTPUT] = ["counts-in", "counts-out"];
const PARTITIONS = 3;
const INSTANCES = 2;
const READY_SECONDS_MAX = 60;
/** Until transactions of killed instances have timed out, their tasks have moved and all is counted. */
const SETTLE_SECONDS_MAX = 240;
const PROGRAM = join(import.meta.dirname, "../clients/java/WindowCounts.java");

export interface DrillOptions {
  jars: string;
  bootstrap: string;
}

/** Counters for the report, and what is wrong. */
export interface DrillResult {
  counters: Record<string, number | string>;
  breaches: string[];
}

export class StreamsCounts {
  readonly #options: DrillOptions;
  readonly #rate: number;
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-streams-"));
  readonly #instances: JavaProgram[] = [];
  readonly #ended: JavaProgram[] = [];
  #producer: JavaProgram | undefined;
  #kills = 0;

  constructor(options: DrillOptions, rate: number) {
    this.#options = options;
    this.#rate = rate;
  }

  async start(): Promise<void> {
    const { bootstrap } = this.#options;
    const admin = new Admin({ clientId: "drill", bootstrapBrokers: [bootstrap] });
    await admin.createTopics({ topics: [INPUT, OUTPUT], partitions: PARTITIONS, replicas: 1 });
    await admin.close();
    for (let at = 0; at < INSTANCES; at++) this.#instances.push(this.#startInstance(at));
    this.#producer = this.#run("producer", "produce", INPUT);
    for (const one of [...this.#instances, this.#producer]) {
      await one.untilSaid("ready", READY_SECONDS_MAX);
    }
  }

  /** Kills an instance and starts it again: the state of its tasks comes from the changelog. */
  async killInstance(): Promise<void> {
    const at = this.#kills++ % INSTANCES;
    const instance = this.#instances[at] as JavaProgram;
    this.#ended.push(instance);
    await instance.kill();
    this.#instances[at] = this.#startInstance(at);
  }

  async finish(): Promise<DrillResult> {
    const producer = this.#producer as JavaProgram;
    await producer.end();
    const said = (what: string) => producer.lines.filter((line) => line.startsWith(what));
    const produced = Number(said("produced")[0]?.split(" ")[1] ?? 0);
    const failed = said("failed").map((line) => `the producer: ${line}`);
    const [input, output] = await this.#untilCounted(produced);
    for (const one of this.#instances) await one.end();
    const replaced = [...this.#ended, ...this.#instances].flatMap(({ lines }) =>
      lines.filter((line) => line.startsWith("replaced")),
    );
    return {
      counters: {
        produced,
        "input records": input.length,
        "output records": output.length,
        windows: new Set(output.map(({ key }) => key)).size,
        "instances killed": this.#kills,
        "stream threads replaced": replaced.length,
        ...(replaced[0] === undefined ? {} : { "first replaced by": replaced[0].slice(0, 600) }),
      },
      breaches: [
        ...failed,
        ...(produced === 0 ? ["nothing was produced: the drill has shown nothing"] : []),
        ...(input.length === produced ? [] : [`the input has ${input.length} of ${produced}`]),
        ...checkCounts(input, output),
      ],
    };
  }

  async remove(): Promise<void> {
    const all = [...this.#instances, ...(this.#producer ? [this.#producer] : [])];
    for (const one of all) await one.kill();
    rmSync(this.#folder, { recursive: true });
  }

  /** Waits until the output has as many records as the input, or no more come. */
  async #untilCounted(produced: number): Promise<[Keyed[], Keyed[]]> {
    const end = performance.now() + SETTLE_SECONDS_MAX * 1_000;
    for (;;) {
      const output = await this.#read(OUTPUT);
      if (output.length >= produced || performance.now() > end) {
        return [await this.#read(INPUT), output];
      }
      await sleep(5_000);
    }
  }

  async #read(topic: string): Promise<Keyed[]> {
    const reader = this.#run(`reader of ${topic}`, "read", topic);
    await reader.end();
    return reader.lines.map((line) => {
      const [, partition, key = "", value = ""] = line.split(" ");
      return { partition: Number(partition), key, value };
    });
  }

  #startInstance(at: number): JavaProgram {
    return this.#run(`instance ${at}`, "count", INPUT, { STATE: join(this.#folder, `state${at}`) });
  }

  #run(name: string, role: string, topic: string, env: Record<string, string> = {}): JavaProgram {
    const { jars, bootstrap } = this.#options;
    return new JavaProgram(name, {
      jars,
      program: PROGRAM,
      args: [role],
      env: {
        BOOTSTRAP: bootstrap,
        TOPIC: topic,
        OUTPUT,
        APPLICATION: "counts",
        RATE: String(this.#rate),
        ...env,
      },
    });
  }
}
