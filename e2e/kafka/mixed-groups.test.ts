/**
 * Groups with members of Kafka's Java client and of our own client library, which join, leave, die
 * and stand still: every record is read by somebody, and in the end everything is committed.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Kafka, logLevel } from "kafkajs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createCluster,
  createTopic,
  deleteCluster,
  home,
  type Json,
  rest,
  type TestCluster,
  unique,
} from "../product.ts";
import { javaArguments } from "./clients/java.ts";
import { consoleProgram } from "./clients/millrace.ts";

const PARTITIONS = 6;
/** Written at once, and how long until the next ones. */
const RECORDS_PER_SEND = 12;
const SEND_PAUSE_MS = 40;
/** A member that is silent for so long is dead: the least that brokers allow. */
const SESSION_MS = 6_000;
/** How often records are sent for a commit that a rebalance refused, and how long it may take. */
const SETTLE_TRIES_MAX = 20;
const SETTLE_TRY_MS = 1_000;
/** Two session time-outs, and what a JVM needs to start beside others. */
const SETTLE_MS_MAX = 60_000;

const JAVA_ASSIGNORS = {
  range: "org.apache.kafka.clients.consumer.RangeAssignor",
  "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
} as const;
type Assignor = keyof typeof JAVA_ASSIGNORS;

/** A group, its members' reads, and a producer that goes on meanwhile. */
interface Scene {
  bootstrap: string;
  topic: string;
  group: string;
  assignor: Assignor;
  seen: Set<string>;
}

interface Member {
  child: ChildProcess;
  /** What it was told that it owns. */
  partitions: Set<number>;
  /** What a member of Java's has read and not committed since. */
  uncommitted: Set<number>;
  ended: Promise<number | null>;
}

describe.skipIf(!process.env.MILLRACE_KAFKA_JARS)("groups of Java's and our own client", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    consoleProgram();
    cluster = await createCluster(unique("mixed"));
  });
  afterAll(() => deleteCluster(cluster.id));

  it.concurrent.for(Object.keys(JAVA_ASSIGNORS) as Assignor[])("%s", async (assignor) => {
    const scene: Scene = {
      bootstrap: cluster.bootstrap,
      topic: unique("mixed"),
      group: unique(assignor),
      assignor,
      seen: new Set(),
    };
    await createTopic(cluster.id, scene.topic, PARTITIONS);
    const enough = new AbortController();
    const producing = produce(scene, enough.signal);
    const members: Member[] = [];
    try {
      await comeAndGo(scene, members);
      enough.abort();
      let sent = await producing;
      expect(sent).toBeGreaterThan(1_000);
      await until("every record is read", () => scene.seen.size === sent);
      sent = await settle(scene, members, sent);
      for (const { child } of members) child.kill("SIGTERM");
      await Promise.all(members.map(({ ended }) => ended));
      expect(await lagOf(cluster.id, scene.group)).toBe("0");
    } finally {
      enough.abort();
      for (const { child } of members) child.kill("SIGKILL");
      // Where something above failed, that is the failure to show.
      await producing.catch(() => {});
    }
  });
});

/** Lets members join, leave, die and stand still; two are left. */
async function comeAndGo(scene: Scene, members: Member[]): Promise<void> {
  const start = (member: Member) => {
    members.push(member);
    return member;
  };
  const firstJava = start(javaMember(scene));
  const firstOurs = start(ourMember(scene));
  await share("two members", [firstJava, firstOurs]);
  const java = start(javaMember(scene));
  const ours = start(ourMember(scene));
  await share("four members", [firstJava, firstOurs, java, ours]);

  firstJava.child.kill("SIGTERM");
  await share("after a member of Java's left", [firstOurs, java, ours]);
  firstOurs.child.kill("SIGKILL");
  await share("after one of ours died", [java, ours]);

  for (const [name, still, other] of [
    ["Java's", java, ours],
    ["ours", ours, java],
  ] as const) {
    still.child.kill("SIGSTOP");
    await share(`while ${name} stands still`, [other]);
    still.child.kill("SIGCONT");
    await share(`after ${name} goes on`, [java, ours]);
  }
}

/**
 * Java's tool does not repeat a commit that a rebalance refused: it commits with its next records.
 * Sends such until all is committed; returns how many records there are then.
 */
async function settle(scene: Scene, members: Member[], sent: number): Promise<number> {
  let count = sent;
  const left = members.filter(({ child }) => child.exitCode === null && child.signalCode === null);
  const isCommitted = () => left.every(({ uncommitted }) => uncommitted.size === 0);
  for (let tries = 0; tries < SETTLE_TRIES_MAX; tries++) {
    await until("a commit of Java's", isCommitted, SETTLE_TRY_MS).catch(() => {});
    if (isCommitted()) return count;
    count = await produce(scene, AbortSignal.timeout(SEND_PAUSE_MS), count);
    await until("every record is read", () => scene.seen.size === count);
  }
  throw new Error(`Java's tool commits nothing, ${SETTLE_TRIES_MAX} times`);
}

/** Waits until these members have all partitions, each some and none two. */
async function share(when: string, members: Member[]): Promise<void> {
  await until(when, () => {
    const owned = members.flatMap(({ partitions }) => [...partitions]);
    const everyone = members.every(({ partitions }) => partitions.size > 0);
    return everyone && owned.length === PARTITIONS && new Set(owned).size === PARTITIONS;
  });
}

function javaMember(scene: Scene): Member {
  const config = join(home, `${unique(scene.group)}.properties`);
  writeFileSync(config, "heartbeat.interval.ms=500\nretry.backoff.ms=50\n");
  const args = javaArguments("VerifiableConsumer", [
    ...["--bootstrap-server", scene.bootstrap, "--topic", scene.topic, "--group-id", scene.group],
    ...["--session-timeout", String(SESSION_MS), "--reset-policy", "earliest", "--verbose"],
    ...["--assignment-strategy", JAVA_ASSIGNORS[scene.assignor], "--consumer.config", config],
  ]);
  const numbers = (event: Json) => event.partitions.map((one: Json) => one.partition as number);
  return member("java", args, (line, { partitions, uncommitted }) => {
    if (!line.startsWith("{")) return;
    const event = JSON.parse(line);
    if (event.name === "record_data") {
      scene.seen.add(event.value);
      uncommitted.add(event.partition);
    }
    if (event.name === "offsets_committed" && event.success) {
      for (const { partition } of event.offsets) uncommitted.delete(partition);
    }
    if (event.name === "partitions_assigned") for (const n of numbers(event)) partitions.add(n);
    if (event.name !== "partitions_revoked") return;
    for (const n of numbers(event)) {
      partitions.delete(n);
      uncommitted.delete(n);
    }
  });
}

function ourMember(scene: Scene): Member {
  const { bootstrap, topic, group, assignor } = scene;
  const args = ["consume", bootstrap, topic, "--group", group, "--assignor", assignor];
  return member(consoleProgram(), args, (line, { partitions }) => {
    const [what, second, value] = line.split(" ") as [string, string, string];
    if (value !== undefined) return scene.seen.add(value);
    for (const number of second.split(",").filter(Boolean).map(Number)) {
      if (what === "assigned") partitions.add(number);
      if (what === "revoked") partitions.delete(number);
    }
  });
}

function member(
  command: string,
  args: string[],
  onLine: (line: string, member: Member) => void,
): Member {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<number | null>((resolve) => {
    child.once("close", resolve);
  });
  const started: Member = { child, partitions: new Set(), uncommitted: new Set(), ended };
  for (const output of [child.stdout, child.stderr]) {
    createInterface({ input: output }).on("line", (line) => onLine(line, started));
  }
  return started;
}

/** Writes numbers, from `first` on, until it is told to stop; returns the number after the last. */
async function produce(
  { bootstrap, topic }: Scene,
  signal: AbortSignal,
  first = 0,
): Promise<number> {
  const kafka = new Kafka({
    clientId: "mixed",
    brokers: [bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { retries: 20, initialRetryTime: 100 },
  });
  const producer = kafka.producer();
  await producer.connect();
  let sent = first;
  do {
    const messages = Array.from({ length: RECORDS_PER_SEND }, (_, at) => ({
      value: String(sent + at),
      partition: (sent + at) % PARTITIONS,
    }));
    await producer.send({ topic, messages });
    sent += RECORDS_PER_SEND;
    await sleep(SEND_PAUSE_MS);
  } while (!signal.aborted);
  await producer.disconnect();
  return sent;
}

async function lagOf(clusterId: string, groupId: string): Promise<string | undefined> {
  const { body } = await rest("GET", `/v1/clusters/${clusterId}/consumer-groups`);
  return body.items?.find((group: Json) => group.group_id === groupId)?.total_lag;
}

async function until(what: string, holds: () => boolean, msMax = SETTLE_MS_MAX): Promise<void> {
  for (let waited = 0; waited < msMax; waited += 50) {
    if (holds()) return;
    await sleep(50);
  }
  throw new Error(`${what}: not within ${msMax} ms`);
}
