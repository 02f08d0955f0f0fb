/** Groups whose partitions the broker assigns (KIP-848), with Kafka's own Java consumer. */
import { join } from "node:path";
import { Admin, Producer, stringSerializers } from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { JavaProgram } from "./clients/java-program.ts";
import { ProtectedBroker } from "./protected-broker.ts";

const PARTITIONS = 6;
const RECORDS = 300;
const SETTLE_MS_MAX = 60_000;
const jars = process.env.MILLRACE_KAFKA_JARS ?? "";
const source = join(import.meta.dirname, "clients/GroupMember.java");

class Member extends JavaProgram {
  constructor(bootstrap: string, group: string, topics: string, protocol = "consumer") {
    super(`member of ${group}`, {
      jars,
      program: source,
      args: [bootstrap, group, topics, protocol],
    });
  }

  get partitions(): number {
    return Number(this.#said("HAS").at(-1) ?? 0);
  }

  get seen(): Set<string> {
    return new Set(this.#said("GOT"));
  }

  #said(word: string): string[] {
    const lines = this.lines.filter((line) => line.startsWith(`${word} `));
    return lines.map((line) => line.split(" ")[1] ?? "");
  }
}

describe("the consumer protocol", () => {
  // A member that is killed is missed for a tenth of the usual time.
  const broker = new ProtectedBroker(
    "group.consumer.min.session.timeout.ms=4500",
    "group.consumer.session.timeout.ms=4500",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
  );
  const members: Member[] = [];
  let bootstrap = "";

  beforeAll(async () => {
    await broker.create();
    bootstrap = broker.bootstrap("PLAINTEXT");
  });
  afterAll(async () => {
    await Promise.all(members.map((member) => member.kill()));
    await broker.remove();
  });

  function start(group: string, topics: string, protocol?: string): Member {
    const member = new Member(bootstrap, group, topics, protocol);
    members.push(member);
    return member;
  }

  async function createTopic(name: string): Promise<void> {
    const admin = new Admin({ clientId: "e2e", bootstrapBrokers: [bootstrap] });
    await admin.createTopics({ topics: [name], partitions: PARTITIONS, replicas: 1 });
    await admin.close();
  }

  async function send(topic: string, from: number): Promise<void> {
    const producer = new Producer({
      clientId: "e2e",
      bootstrapBrokers: [bootstrap],
      serializers: stringSerializers,
    });
    const messages = Array.from({ length: RECORDS }, (_, n) => ({
      topic,
      key: String(n),
      value: `${topic}-${from + n}`,
    }));
    await producer.send({ messages });
    await producer.close();
  }

  const settled = (expected: number[], of: Member[]) =>
    expect.poll(() => of.map((m) => m.partitions), { timeout: SETTLE_MS_MAX }).toEqual(expected);
  const allSeen = (count: number, of: Member[]) =>
    expect
      .poll(() => new Set(of.flatMap((m) => [...m.seen])).size, { timeout: SETTLE_MS_MAX })
      .toBe(count);

  it("shares partitions, and survives a member that is killed", { timeout: 180_000 }, async () => {
    await createTopic("work");
    await send("work", 0);
    const three = [start("names", "work"), start("names", "work"), start("names", "work")];
    await settled([2, 2, 2], three);
    await allSeen(RECORDS, three);
    await three[0]?.kill();
    await send("work", RECORDS);
    const two = three.slice(1);
    await settled([3, 3], two);
    await allSeen(2 * RECORDS, three);
    await two[0]?.kill("SIGTERM");
    await settled([PARTITIONS], two.slice(1));
  });

  it("matches a pattern with topics that come later", { timeout: 180_000 }, async () => {
    await createTopic("logs-a");
    await createTopic("other");
    const member = start("patterns", "/logs-.*");
    await settled([PARTITIONS], [member]);
    await createTopic("logs-b");
    await settled([2 * PARTITIONS], [member]);
    await send("logs-b", 0);
    await allSeen(RECORDS, [member]);
  });

  it("takes members of the classic protocol along", { timeout: 180_000 }, async () => {
    await createTopic("moving");
    const classic = start("mixed", "moving", "classic");
    await settled([PARTITIONS], [classic]);
    const consumer = start("mixed", "moving");
    await settled([3, 3], [classic, consumer]);
    await send("moving", 0);
    await allSeen(RECORDS, [classic, consumer]);
    await consumer.kill("SIGTERM");
    await settled([PARTITIONS], [classic]);
  });
});
