/**
 * Two Kafka Connect workers in distributed mode, each with a file source and a file sink: one with exactly-once support of
 * its sources, one without. Sinks deliver at least once, and so does a source without that support.
 */
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { JavaProgram } from "../kafka/clients/java-program.ts";
import { freePort } from "../kafka/protected-broker.ts";
import type { DrillOptions, DrillResult } from "./streams-counts.ts";
import { checkLines } from "./streams-history.ts";

const READY_SECONDS_MAX = 120;
const SETTLE_SECONDS_MAX = 240;
const LINES_MS = 100;
const READER = join(import.meta.dirname, "../clients/java/WindowCounts.java");
const WORKER = "org.apache.kafka.connect.cli.ConnectDistributed";

interface Worker {
  name: "exact" | "plain";
  port: number;
  program: JavaProgram;
  restarts: number;
  /** Tasks that failed and were started again. */
  failures: string[];
}

interface Status {
  connector: { state: string; trace?: string };
  tasks: { id: number; state: string; trace?: string }[];
}

export class ConnectFiles {
  readonly #options: DrillOptions;
  readonly #rate: number;
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-connect-"));
  readonly #workers: Worker[] = [];
  #timer: NodeJS.Timeout | undefined;
  #written = 0;

  constructor(options: DrillOptions, rate: number) {
    this.#options = options;
    this.#rate = rate;
  }

  async start(): Promise<void> {
    for (const name of ["exact", "plain"] as const) {
      const port = await freePort();
      writeFileSync(this.#file(name, "properties"), this.#settings(name, port));
      writeFileSync(this.#file(name, "in"), "");
      this.#workers.push({ name, port, program: this.#run(name), restarts: 0, failures: [] });
    }
    for (const worker of this.#workers) {
      await untilServing(worker);
      await this.#createConnectors(worker);
    }
    this.#timer = setInterval(() => this.#append(), LINES_MS);
  }

  /** Starts failed tasks again, as their operator does: exactly-once tasks end where a commit fails. */
  async restartFailed(): Promise<void> {
    for (const worker of this.#workers) {
      for (const connector of ["source", "sink"]) await restartFailedTasks(worker, connector);
    }
  }

  /** Kills a worker and starts it again: its successor fences the transactions of the source. */
  async killWorker(): Promise<void> {
    const worker = this.#workers[0] as Worker;
    await worker.program.kill();
    worker.restarts++;
    worker.program = this.#run(worker.name);
    await untilServing(worker);
  }

  /** @param kills of the broker. */
  async finish(kills: number): Promise<DrillResult> {
    clearInterval(this.#timer);
    await this.#untilCopied();
    const result: DrillResult = { counters: { "lines written": this.#written }, breaches: [] };
    for (const worker of this.#workers) await this.#check(worker, kills, result);
    return result;
  }

  async remove(): Promise<void> {
    clearInterval(this.#timer);
    for (const { program } of this.#workers) await program.kill("SIGTERM");
    rmSync(this.#folder, { recursive: true });
  }

  async #check(worker: Worker, kills: number, { counters, breaches }: DrillResult): Promise<void> {
    const { name, restarts, failures } = worker;
    const reader = new JavaProgram(`reader of ${name}`, {
      jars: this.#options.jars,
      program: READER,
      args: ["read"],
      env: { BOOTSTRAP: this.#options.bootstrap, TOPIC: name },
    });
    await reader.end();
    const inTopic = reader.lines.map((line) => line.replace(/^read \d+ null /, ""));
    const again = kills + restarts + failures.length;
    const topic = checkLines(`topic ${name}`, inTopic, this.#written, name === "exact" ? 0 : again);
    // The sink repeats what the topic repeats, and what it had not committed.
    const lines = readLines(this.#file(name, "out"));
    const file = checkLines(`file ${name}`, lines, this.#written, topic.jumps + again);
    breaches.push(...topic.breaches, ...file.breaches);
    counters[`${name}: duplicates in the topic`] = topic.duplicates;
    counters[`${name}: duplicates in the file`] = file.duplicates;
    counters[`${name}: tasks restarted`] = failures.length;
    counters[`${name}: worker killed`] = restarts;
    if (failures[0] !== undefined) counters[`${name}: first failure`] = failures[0];
    if (this.#written === 0) breaches.push("no line was written: the drill has shown nothing");
  }

  #append(): void {
    const count = Math.ceil((this.#rate * LINES_MS) / 1_000);
    const lines = Array.from({ length: count }, (_, at) => `line ${this.#written + at}\n`).join("");
    for (const { name } of this.#workers) appendFileSync(this.#file(name, "in"), lines);
    this.#written += count;
  }

  async #untilCopied(): Promise<void> {
    const last = `line ${this.#written - 1}`;
    const end = performance.now() + SETTLE_SECONDS_MAX * 1_000;
    const isCopied = ({ name }: Worker) => readLines(this.#file(name, "out")).includes(last);
    while (performance.now() < end && !this.#workers.every(isCopied)) {
      await this.restartFailed();
      await sleep(2_000);
    }
  }

  async #createConnectors(worker: Worker): Promise<void> {
    const { name } = worker;
    const common = { "tasks.max": "1" };
    await untilAccepted(worker, "source", {
      ...common,
      "connector.class": "FileStreamSource",
      file: this.#file(name, "in"),
      topic: name,
    });
    await untilAccepted(worker, "sink", {
      ...common,
      "connector.class": "FileStreamSink",
      file: this.#file(name, "out"),
      topics: name,
    });
  }

  #run(name: string): JavaProgram {
    return new JavaProgram(`worker ${name}`, {
      jars: this.#options.jars,
      program: WORKER,
      args: [this.#file(name, "properties")],
    });
  }

  #file(name: string, kind: "in" | "out" | "properties"): string {
    return join(this.#folder, `${name}.${kind}`);
  }

  #settings(name: string, port: number): string {
    const strings = "org.apache.kafka.connect.storage.StringConverter";
    return [
      `bootstrap.servers=${this.#options.bootstrap}`,
      `listeners=http://localhost:${port}`,
      `group.id=connect-${name}`,
      ...["config", "offset", "status"].flatMap((kind) => [
        `${kind}.storage.topic=connect-${name}-${kind}`,
        `${kind}.storage.replication.factor=1`,
      ]),
      "offset.storage.partitions=3",
      "status.storage.partitions=1",
      `key.converter=${strings}`,
      `value.converter=${strings}`,
      "plugin.discovery=only_scan",
      "offset.flush.interval.ms=1000",
      "scheduled.rebalance.max.delay.ms=0",
      "session.timeout.ms=10000",
      "heartbeat.interval.ms=1000",
      `exactly.once.source.support=${name === "exact" ? "enabled" : "disabled"}`,
      "consumer.isolation.level=read_committed",
      "reconnect.backoff.max.ms=200",
      "",
    ].join("\n");
  }
}

async function untilServing({ name, port, program }: Worker): Promise<void> {
  const isServing = () =>
    fetch(`http://localhost:${port}/connectors`).then(
      ({ ok }) => ok,
      () => false,
    );
  await program.until(isServing, `serve (worker ${name})`, READY_SECONDS_MAX);
}

/** A worker that is still joining its group refuses with 409. */
async function untilAccepted(
  { port, program }: Worker,
  connector: string,
  config: Record<string, string>,
): Promise<void> {
  let answer = "";
  const isAccepted = async () => {
    const response = await fetch(`http://localhost:${port}/connectors/${connector}/config`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(config),
    });
    answer = `${response.status} ${await response.text()}`;
    return response.ok;
  };
  await program.until(isAccepted, `accept ${connector}`, READY_SECONDS_MAX).catch((error) => {
    throw new Error(`${answer.slice(0, 500)}: ${error}`);
  });
}

async function restartFailedTasks(worker: Worker, connector: string): Promise<void> {
  const url = `http://localhost:${worker.port}/connectors/${connector}`;
  const status = await fetch(`${url}/status`).then(
    async (response) => (response.ok ? ((await response.json()) as Status) : undefined),
    () => undefined,
  );
  const failed = [status?.connector, ...(status?.tasks ?? [])].find(
    (one) => one?.state === "FAILED",
  );
  if (failed === undefined) return;
  const options = "includeTasks=true&onlyFailed=true";
  const restarted = await fetch(`${url}/restart?${options}`, { method: "POST" });
  if (!restarted.ok) return;
  const causes = (failed.trace ?? "").split("\n").filter((line) => !/^\s/.test(line));
  worker.failures.push(`${connector}: ${causes.join(" ").slice(0, 800)}`);
  // Its status follows; until then it would count again.
  await sleep(1_000);
}

function readLines(file: string): string[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8").split("\n").slice(0, -1);
}
