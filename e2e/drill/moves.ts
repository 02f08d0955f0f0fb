/**
 * `npm run drill:moves`: partitions move between three brokers under a steady load of stock clients. No error reaches an
 * application, nothing acknowledged is lost, duplicated, reordered or not consumed, and the 99th percentile of the
 * time without an acknowledgement stays below 300 ms.
 *
 *     --moves N       moves of single partitions in all (60)
 *     --batch N       partitions that are moved at once, evenly from all clients (5)
 *     --rate N        records per second and partition (25)
 *     --clients A,B   only clients whose names begin so
 *     --defaults      the clients' default settings; the gaps then have no limit
 *     --keep          does not delete the cluster, so that its logs can be read
 *     --json FILE     also writes the results there
 *
 * It needs a running `npm start`.
 */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { assertInstallable, installSteadyPrograms } from "../clients/programs.ts";
import { node } from "../kafka/clients/node.ts";
import { createCluster, createTopic, deleteCluster, type TestCluster, unique } from "../product.ts";
import { quantile } from "./comparison.ts";
import { WINDOW_MS } from "./move-gaps.ts";
import {
  type ClientReport,
  GAP_P99_MS_MAX,
  gapTable,
  reportOf,
  type Timeline,
} from "./move-report.ts";
import { Mover, type Step } from "./mover.ts";
import { SteadyClient } from "./steady-client.ts";

const BROKERS = 3;
const PARTITIONS = 8;
/** It has no idempotent producer. */
const NOT_IDEMPOTENT = "kafka-go";
const IDLE_MS = 15_000;
/** By then each broker knows the topics. kafka-go does not ask again for one that is unknown. */
const TOPICS_KNOWN_MS = 1_000;

const { values: options } = parseArgs({
  options: {
    moves: { type: "string", default: "60" },
    batch: { type: "string", default: "5" },
    rate: { type: "string", default: "25" },
    clients: { type: "string", default: "" },
    defaults: { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
    json: { type: "string" },
  },
});

assertInstallable();
const programs = (await installSteadyPrograms()).filter(({ name }) =>
  options.clients.split(",").some((chosen) => name.startsWith(chosen)),
);
const cluster = await createCluster(unique("moves"), "dev", { brokers: BROKERS });
const mover = new Mover(cluster);
const clients: SteadyClient[] = [];
try {
  await mover.connect();
  await run();
} finally {
  await Promise.allSettled([...clients.map((client) => client.kill()), mover.disconnect()]);
  if (!options.keep) await deleteCluster(cluster.id);
}

async function run(): Promise<void> {
  const topics = programs.map((_, number) => `moves-${number}`);
  for (const topic of topics) await createTopic(cluster.id, topic, PARTITIONS);
  await sleep(TOPICS_KNOWN_MS);
  for (const [number, program] of programs.entries()) {
    clients.push(new SteadyClient(program, loadOf(cluster, topics[number]!)));
  }
  await Promise.all(clients.map((client) => client.started()));
  const steadyFrom = Date.now();
  console.log(`${clients.length} clients produce and consume; idle for ${IDLE_MS / 1_000} s`);
  await sleep(IDLE_MS);
  const timeline = { steadyFrom, movesFrom: Date.now() };
  const steps = await moveAll();
  await Promise.all(clients.map((client) => client.finish()));
  const reports: ClientReport[] = [];
  for (const client of clients) reports.push(await examine(client, steps, timeline));
  report(reports, steps);
}

function loadOf({ bootstrap }: TestCluster, topic: string) {
  const recordsPerSecond = Number(options.rate);
  return { bootstrap, topic, partitions: PARTITIONS, recordsPerSecond, isTuned: !options.defaults };
}

/** Moves the partitions of all clients in turn, so that each client has as many moves as any other. */
async function moveAll(): Promise<Step[]> {
  const steps: Step[] = [];
  const moves = Number(options.moves);
  const batch = Math.max(1, Number(options.batch));
  for (let moved = 0; moved < moves; ) {
    const selection = new Map<string, number[]>();
    const end = Math.min(moves, moved + batch);
    for (; moved < end; moved++) {
      const { topic } = clients[moved % clients.length]!;
      const partition = Math.floor(moved / clients.length) % PARTITIONS;
      selection.set(topic, [...(selection.get(topic) ?? []), partition]);
    }
    const step = await mover.move(selection);
    steps.push(step);
    if (steps.length % 10 === 0) console.log(`${moved} partitions moved`);
    await sleep(Math.max(0, step.requestedAt + WINDOW_MS - Date.now()));
  }
  return steps;
}

async function examine(
  client: SteadyClient,
  steps: readonly Step[],
  timeline: Timeline,
): Promise<ClientReport> {
  const moves = steps.flatMap(({ selection, ...times }) =>
    (selection.get(client.topic) ?? []).map((partition) => ({ partition, ...times })),
  );
  const stored: number[][] = Array.from({ length: PARTITIONS }, () => []);
  const count = (await mover.recordCounts(client.topic)).reduce((sum, each) => sum + each, 0);
  await node.consume(cluster.bootstrap, client.topic, count, ({ partition, value }) => {
    stored[partition]!.push(Number(value));
  });
  const isIdempotent = !client.name.startsWith(NOT_IDEMPOTENT);
  const gapMsMax = options.defaults ? Number.POSITIVE_INFINITY : GAP_P99_MS_MAX;
  return reportOf(client, moves, timeline, stored, { isIdempotent, gapMsMax });
}

function report(reports: readonly ClientReport[], steps: readonly Step[]): void {
  const took = steps.map(({ requestedAt, completedAt }) => ({
    at: new Date(requestedAt).toISOString(),
    ms: completedAt - requestedAt,
  }));
  const times = took.map(({ ms }) => ms);
  console.log(`\n${gapTable(reports)}\n\nTimes in ms. ${steps.length} reassignments of`);
  console.log(`${options.batch} partitions took ${quantile(times, 0.5)} in the median,`);
  console.log(`${quantile(times, 0.99)} in the 99th percentile, ${Math.max(...times)} at most.`);
  for (const { client, faults, errors } of reports) {
    for (const line of [...faults, ...errors.slice(0, 5)]) console.error(`${client}: ${line}`);
  }
  if (options.json !== undefined) {
    // npm runs this in the package's folder.
    const file = resolve(process.env.INIT_CWD ?? ".", options.json);
    // JSON has no number for a gap without an end.
    const finite = (_: string, value: unknown) =>
      value === Number.POSITIVE_INFINITY ? "infinite" : value;
    writeFileSync(file, `${JSON.stringify({ options, reports, steps: took }, finite, 2)}\n`);
  }
  process.exitCode = reports.every(({ faults }) => faults.length === 0) ? 0 : 1;
}
