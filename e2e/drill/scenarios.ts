/**
 * What groups do: each scenario has a topic and a group of its own, counts what it does, and says of
 * which time its numbers are to be compared.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { TestCluster } from "../product.ts";
import { exactRow, factRow, type Row } from "./comparison.ts";
import { bursts, constant } from "./counting-producer.ts";
import { type Observation, Workload } from "./workload.ts";

const MB = 1_000_000;
const READ_SECONDS_MAX = 300;

/** When a group read all that there was, milliseconds since the epoch. */
export interface CatchingUp {
  /** Since when it read as it did until the end. */
  since: number;
  reachedAt: number;
}

export interface Outcome {
  name: string;
  workload: Workload;
  /** When its estimates of the remaining time came true; undefined where the group never arrives. */
  catchingUp: CatchingUp | undefined;
  /** Of its topic's chart; that of the readings by default. */
  chartStepSeconds?: number;
  /** Findings that are no measurements. */
  facts: Row[];
}

export type Scenario = (cluster: TestCluster) => Promise<Outcome>;

/** Runs it on a workload that is closed whatever happens. */
function scenario(
  name: string,
  partitions: number,
  run: (workload: Workload) => Promise<Omit<Outcome, "name" | "workload">>,
): Scenario {
  return async (cluster) => {
    const workload = await Workload.open(cluster, name, partitions);
    try {
      return { name, workload, ...(await run(workload)) };
    } finally {
      await workload.close();
    }
  };
}

/** Reads a backlog to its end while the producer goes on. */
async function drain(
  workload: Workload,
  bytesPerSecond: number,
  pace: "partition" | "member" = "partition",
) {
  await workload.read(bytesPerSecond, { pace });
  const { since } = workload.reading;
  const reachedAt = await workload.untilRead(READ_SECONDS_MAX);
  const facts = [exactRow("lag at rest", [await workload.atRest()])];
  return { catchingUp: { since, reachedAt }, facts };
}

const steady = scenario("steady", 2, async (workload) => {
  await workload.producer.fill([30 * MB, 30 * MB]);
  workload.producer.start(constant(0.3 * MB));
  return drain(workload, 0.4 * MB);
});

const bursty = scenario("bursty", 2, async (workload) => {
  await workload.producer.fill([38 * MB, 38 * MB]);
  workload.producer.start(bursts({ bytesPerSecond: 0.9 * MB, onMs: 2_000, offMs: 4_000 }));
  // Each point is of five bursts: readings every 10 s cannot tell where in them a burst of 2 s was.
  return { ...(await drain(workload, 0.4 * MB)), chartStepSeconds: 30 };
});

/** Each partition has a thread of its own. */
const skewed = scenario("skewed", 4, async (workload) => {
  await workload.producer.fill([6 * MB, 36 * MB, 6 * MB, 6 * MB]);
  return drain(workload, 0.3 * MB);
});

/** One thread reads all partitions: the large one gets the time of those that are done. */
const skewedInTurn = scenario("skewed-in-turn", 4, async (workload) => {
  await workload.producer.fill([12 * MB, 36 * MB, 12 * MB, 12 * MB]);
  return drain(workload, 0.6 * MB, "member");
});

/** After a pause this long no mean of the last 30 s is above the produce rate: there is no estimate. */
const NO_ETA_AFTER_MS = 40_000;
/** What has not shrunk for a minute falls behind; some 30 s pass until it is seen not to shrink. */
const FALLING_BEHIND_AFTER_MS = 95_000;
const PAUSE_MS = 105_000;

const paused = scenario("paused", 2, async (workload) => {
  await workload.producer.fill([7 * MB, 7 * MB]);
  workload.producer.start(constant(0.3 * MB));
  const consumer = await workload.read(0.35 * MB);
  await sleep(30_000);
  const pausedAt = Date.now();
  consumer.pause(1);
  await sleep(PAUSE_MS);
  const since = Date.now();
  consumer.resume(1);
  const reachedAt = await workload.untilRead(READ_SECONDS_MAX);
  const rest = exactRow("lag at rest", [await workload.atRest()]);
  const pausedFor = (ms: number) =>
    workload.observations.filter(({ catchUp }) => {
      return catchUp !== undefined && catchUp.askedAt >= pausedAt + ms && catchUp.at < since;
    });
  const facts = [
    rest,
    factRow("no ETA while paused", pausedFor(NO_ETA_AFTER_MS), hasNoEta),
    factRow(
      "falls behind while paused",
      pausedFor(FALLING_BEHIND_AFTER_MS),
      ({ catchUp }) => catchUp?.body.mode === "falling_behind",
    ),
  ];
  return { catchingUp: { since, reachedAt }, facts };
});

const REWOUND_RECORDS = 5_000;

const rewound = scenario("rewound", 2, async (workload) => {
  await workload.producer.fill([20 * MB, 20 * MB]);
  workload.producer.start(constant(0.2 * MB));
  const consumer = await workload.read(0.5 * MB);
  await sleep(45_000);
  consumer.pause(0, 1);
  await consumer.untilCommitted();
  const before = await workload.atRest();
  await consumer.rewind(REWOUND_RECORDS);
  const after = await workload.atRest();
  const jump = Number(after.group.body.total_lag) - Number(before.group.body.total_lag);
  const facts = [
    exactRow("lag at rest, before and after the rewind", [before, after]),
    factRow("lag grows by what was rewound", [after], () => jump === 2 * REWOUND_RECORDS),
  ];
  workload.producer.start(constant(0.5 * MB));
  consumer.resume(0, 1);
  const since = Date.now();
  const reachedAt = await workload.untilRead(READ_SECONDS_MAX);
  facts.push(exactRow("lag at rest", [await workload.atRest()]));
  return { catchingUp: { since, reachedAt }, facts };
});

/** `auto.offset.reset=earliest`: it begins at the start of the log, so all records are its lag. */
const uncommitted = scenario("not-yet-committed", 2, async (workload) => {
  await workload.producer.fill([2 * MB, 2 * MB]);
  workload.producer.start(constant(0.15 * MB));
  await workload.read(0.1 * MB, { commits: false });
  await sleep(90_000);
  const rest = await workload.atRest();
  const all = [...workload.observations, rest];
  const isMarked = ({ group }: Observation) =>
    group.body.partitions.length === 2 &&
    group.body.partitions.every((each: { uncommitted: boolean }) => each.uncommitted);
  const facts = [
    exactRow("lag at rest", [rest]),
    factRow("marked as uncommitted", all, isMarked),
    factRow("no ETA", all, hasNoEta),
  ];
  return { catchingUp: undefined, facts };
});

const idle = scenario("idle", 2, async (workload) => {
  await workload.producer.fill([4 * MB, 4 * MB]);
  workload.producer.start(constant(0.15 * MB));
  const consumer = await workload.read(0.2 * MB);
  await sleep(15_000);
  await consumer.leave();
  const leftAt = Date.now();
  await sleep(75_000);
  const rest = await workload.atRest();
  const since = (ms: number) =>
    [...workload.observations, rest].filter(({ group }) => group.askedAt >= leftAt + ms);
  const facts = [
    exactRow("lag at rest", [rest]),
    factRow("is idle", since(0), ({ group }) => group.body.idle === true),
    factRow("no ETA", since(NO_ETA_AFTER_MS), hasNoEta),
  ];
  return { catchingUp: undefined, facts };
});

/** A group that the catch-up status does not know yet has none either. */
function hasNoEta({ catchUp }: Observation): boolean {
  return catchUp === undefined || catchUp.body.eta_seconds === null;
}

export const SCENARIOS: readonly Scenario[] = [
  ...[steady, bursty, skewed, skewedInTurn, paused],
  ...[rewound, uncommitted, idle],
];
