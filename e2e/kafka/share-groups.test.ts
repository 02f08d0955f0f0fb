/** Share groups (KIP-932), with Kafka's own Java share consumer. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import {
  Admin,
  ConfigResourceTypes,
  IncrementalAlterConfigOperationTypes,
  Producer,
  stringSerializers,
} from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PEERS, type Peer, type RunningBroker, startBroker } from "./plain-broker.ts";
import { PlainCluster } from "./plain-cluster.ts";

const RECORDS = 300;
const SETTLE_MS_MAX = 60_000;
/** Time in which a record that must not come would come. */
const QUIET_MS = 3_000;
const LOCK_MS = 3_000;
const DELIVERIES_MAX = 3;
const jars = process.env.MILLRACE_KAFKA_JARS ?? "";
const source = join(import.meta.dirname, "clients/ShareMember.java");
/** Apache Kafka, to validate the test itself. */
const peer = PEERS.find((one) => one === process.env.MILLRACE_TEST_PEER) ?? ("millrace" as Peer);

type Mode = "accept" | "retry" | "reject" | "hold";

/** A Java process that is a member of a share group. */
class ShareMember {
  isReady = false;
  acknowledged = 0;
  /** What it has received, each time: the value and its delivery count. */
  readonly got: [string, number][] = [];
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(bootstrap: string, group: string, topic: string, mode: Mode) {
    const machine = ["-Xmx256M", "-XX:+UseSerialGC", "-cp", `${jars}/*`];
    this.#child = spawn("java", [...machine, source, bootstrap, group, topic, mode]);
    this.#ended = once(this.#child, "close");
    if (this.#child.stdout === null) throw new Error("a member writes to a pipe");
    createInterface({ input: this.#child.stdout }).on("line", (line) => {
      const [word, text, deliveries] = line.split(" ", 3);
      if (word === "READY") this.isReady = true;
      if (word === "ACK") this.acknowledged += Number(text);
      if (word === "GOT" && text !== undefined) this.got.push([text, Number(deliveries)]);
    });
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.#child.kill(signal);
    await this.#ended;
  }
}

const SETTINGS = [
  "group.share.min.record.lock.duration.ms=1000",
  `group.share.record.lock.duration.ms=${LOCK_MS}`,
  `group.share.delivery.count.limit=${DELIVERIES_MAX}`,
];
/** With several brokers, leaders of partitions ask coordinators at other brokers. */
const BROKERS = peer === "kafka" ? [1] : [1, 3];

async function startBrokers(count: number): Promise<RunningBroker> {
  if (count === 1) return startBroker(peer, ...SETTINGS);
  const cluster = new PlainCluster(count, () => 0, ...SETTINGS);
  await cluster.create();
  return cluster;
}

describe.each(BROKERS)("share groups, brokers: %d", (count) => {
  const members: ShareMember[] = [];
  let broker: RunningBroker;
  let admin: Admin;

  beforeAll(async () => {
    broker = await startBrokers(count);
    admin = new Admin({ clientId: "e2e", bootstrapBrokers: broker.bootstrap.split(",") });
  });
  afterAll(async () => {
    await Promise.all(members.map((member) => member.end("SIGKILL")));
    await admin?.close();
    await broker?.remove();
  });

  /** A topic of one partition with records, and a share group that reads it from the start. */
  async function prepare(name: string): Promise<void> {
    await admin.createTopics({ topics: [name], partitions: 1, replicas: 1 });
    const configs = [
      {
        name: "share.auto.offset.reset",
        value: "earliest",
        configOperation: IncrementalAlterConfigOperationTypes.SET,
      },
    ];
    await admin.incrementalAlterConfigs({
      resources: [{ resourceType: ConfigResourceTypes.GROUP, resourceName: name, configs }],
      validateOnly: false,
    });
    await send(name, 0);
  }

  async function send(topic: string, from: number): Promise<void> {
    const producer = new Producer({
      clientId: "e2e",
      bootstrapBrokers: broker.bootstrap.split(","),
      serializers: stringSerializers,
    });
    // Each batch may go to another member.
    for (let at = from; at < from + RECORDS; at += 30) {
      const messages = Array.from({ length: 30 }, (_, n) => ({
        topic,
        value: `${topic}-${at + n}`,
      }));
      await producer.send({ messages });
    }
    await producer.close();
  }

  function start(name: string, mode: Mode): ShareMember {
    const member = new ShareMember(broker.bootstrap, name, name, mode);
    members.push(member);
    return member;
  }

  const acknowledged = (count: number, of: ShareMember[]) =>
    expect
      .poll(() => of.reduce((sum, m) => sum + m.acknowledged, 0), { timeout: SETTLE_MS_MAX })
      .toBe(count);
  const quiet = () => new Promise((resolve) => setTimeout(resolve, QUIET_MS));
  const values = (of: ShareMember[]) => of.flatMap((m) => m.got.map(([value]) => value));

  it("gives each record to one member of a partition", { timeout: 180_000 }, async () => {
    await prepare("shared");
    const two = [start("shared", "accept"), start("shared", "accept")];
    await expect.poll(() => two.every((m) => m.isReady), { timeout: SETTLE_MS_MAX }).toBe(true);
    await send("shared", RECORDS);
    await acknowledged(2 * RECORDS, two);
    expect(values(two).length).toBe(2 * RECORDS);
    expect(new Set(values(two)).size).toBe(2 * RECORDS);
  });

  it("delivers again what is released, and not what is rejected", {
    timeout: 180_000,
  }, async () => {
    await prepare("released");
    const retry = start("released", "retry");
    await acknowledged(2 * RECORDS, [retry]);
    expect(retry.got.filter(([, deliveries]) => deliveries === 1).length).toBe(RECORDS);
    expect(retry.got.filter(([, deliveries]) => deliveries === 2).length).toBe(RECORDS);
    await prepare("rejected");
    const reject = start("rejected", "reject");
    await acknowledged(RECORDS, [reject]);
    await quiet();
    expect(reject.got.length).toBe(RECORDS);
  });

  it("gives what a killed member held to another one", { timeout: 180_000 }, async () => {
    await prepare("held");
    const holder = start("held", "hold");
    await expect.poll(() => holder.got.length, { timeout: SETTLE_MS_MAX }).toBeGreaterThan(0);
    const held = new Set(values([holder]));
    await holder.end("SIGKILL");
    const other = start("held", "accept");
    await acknowledged(RECORDS, [other]);
    expect([...held].filter((value) => !values([other]).includes(value))).toEqual([]);
    // The deliveries to a member whose session has ended do not count.
    expect(other.got.every(([, deliveries]) => deliveries === 1)).toBe(true);
  });

  it("remembers acknowledgements when the broker is killed", { timeout: 180_000 }, async () => {
    await prepare("durable");
    const first = start("durable", "accept");
    await acknowledged(RECORDS, [first]);
    await first.end("SIGTERM");
    await broker.kill();
    await broker.start();
    const second = start("durable", "accept");
    await expect.poll(() => second.isReady, { timeout: SETTLE_MS_MAX }).toBe(true);
    await send("durable", RECORDS);
    await acknowledged(RECORDS, [second]);
    await quiet();
    expect(second.got.length).toBe(RECORDS);
    expect(second.got.every(([, deliveries]) => deliveries === 1)).toBe(true);
  });
});
