/** Share groups (KIP-932), with Kafka's own Java share consumer. */
import { join } from "node:path";
import {
  Admin,
  ConfigResourceTypes,
  IncrementalAlterConfigOperationTypes,
  Producer,
  stringSerializers,
} from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { JavaProgram } from "./clients/java-program.ts";
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

class ShareMember extends JavaProgram {
  constructor(bootstrap: string, group: string, topic: string, mode: Mode) {
    super(`member of ${group}`, { jars, program: source, args: [bootstrap, group, topic, mode] });
  }

  get isReady(): boolean {
    return this.lines.includes("READY");
  }

  get acknowledged(): number {
    return this.#said("ACK").reduce((sum, [count]) => sum + Number(count), 0);
  }

  /** What it has received, each time: the value and its delivery count. */
  get got(): [string, number][] {
    return this.#said("GOT").map(([value = "", deliveries]) => [value, Number(deliveries)]);
  }

  #said(word: string): string[][] {
    const words = this.lines.map((line) => line.split(" "));
    return words.filter(([first]) => first === word).map((line) => line.slice(1));
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
  const cluster = new PlainCluster(count, () => 0, { further: SETTINGS });
  await cluster.create();
  return cluster;
}

describe.skipIf(jars === "").each(BROKERS)("share groups, brokers: %d", (count) => {
  const members: ShareMember[] = [];
  let broker: RunningBroker;
  let admin: Admin;

  beforeAll(async () => {
    broker = await startBrokers(count);
    admin = new Admin({ clientId: "e2e", bootstrapBrokers: broker.bootstrap.split(",") });
  });
  afterAll(async () => {
    await Promise.all(members.map((member) => member.kill()));
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
    await holder.kill();
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
    await first.kill("SIGTERM");
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
