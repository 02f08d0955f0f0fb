/** Lag at rest, against counts of the test's own: to the record, whatever the group has done. */
import { Consumer, Producer } from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createCluster,
  createTopic,
  deleteCluster,
  type Json,
  rest,
  type TestCluster,
  unique,
} from "../product.ts";

const RECORDS = [700, 300] as const;
const SETTLE_MS_MAX = 30_000;

describe("the lag at rest", () => {
  let cluster: TestCluster;

  beforeAll(async () => {
    cluster = await createCluster(unique("lag"));
  });
  afterAll(() => deleteCluster(cluster.id));

  /** A topic with 700 and 300 records. */
  async function newTopic(): Promise<string> {
    const topic = unique("counted");
    await createTopic(cluster.id, topic, RECORDS.length);
    const producer = new Producer({ clientId: "lag", bootstrapBrokers: [cluster.bootstrap] });
    for (const [partition, count] of RECORDS.entries()) {
      const message = { topic, partition, value: Buffer.from("v") };
      await producer.send({ messages: Array.from({ length: count }, () => message) });
    }
    await producer.close();
    return topic;
  }

  /** Joins, commits these offsets, lets the caller look while it is a member, and leaves. */
  async function asMember(
    work: { topic: string; groupId: string },
    offsets: readonly bigint[],
    look: () => Promise<void>,
  ): Promise<void> {
    const { topic, groupId } = work;
    const consumer = new Consumer({
      clientId: "lag",
      groupId,
      bootstrapBrokers: [cluster.bootstrap],
      autocommit: false,
    });
    await consumer.consume({ topics: [topic], mode: "earliest" });
    if (offsets.length > 0) {
      const committed = offsets.map((offset, partition) => ({
        ...{ topic, partition, offset },
        leaderEpoch: -1,
      }));
      await consumer.commit({ offsets: committed });
    }
    await look();
    await consumer.close(true);
  }

  async function newWork() {
    return { topic: await newTopic(), groupId: unique("readers") };
  }

  /** Both answers of the API: the group, and the same group in the catch-up status. */
  async function lagOf(groupId: string): Promise<Json> {
    const path = `/v1/clusters/${cluster.id}`;
    const [described, catchUp] = [
      await rest("GET", `${path}/consumer-groups/${groupId}`),
      await rest("GET", `${path}/catch-up`),
    ];
    const behind = catchUp.body.groups.find((each: Json) => each.group === groupId);
    return {
      total: described.body.total_lag,
      lags: described.body.partitions?.map(({ lag }: Json) => lag),
      uncommitted: described.body.partitions?.map((each: Json) => each.uncommitted),
      idle: described.body.idle,
      backlog: behind?.backlog_records,
      eta: behind?.eta_seconds,
    };
  }

  function untilLag(groupId: string, expected: object): Promise<void> {
    return expect
      .poll(() => lagOf(groupId), { timeout: SETTLE_MS_MAX, interval: 250 })
      .toMatchObject(expected);
  }

  it("is the whole log for a member that has not committed, and says so", async () => {
    const work = await newWork();
    await asMember(work, [], () =>
      untilLag(work.groupId, {
        total: "1000",
        lags: ["700", "300"],
        uncommitted: [true, true],
        idle: false,
        backlog: "1000",
      }),
    );
  });

  it("is exact for a member, and for the idle group that it leaves behind", async () => {
    const work = await newWork();
    const lags = { total: "650", lags: ["450", "200"], backlog: "650" };
    await asMember(work, [250n, 100n], () =>
      untilLag(work.groupId, { ...lags, uncommitted: [false, false], idle: false }),
    );
    await untilLag(work.groupId, { ...lags, idle: true, eta: null });
  });

  it("grows again by every record after a rewind, and is 0 at the end", async () => {
    const work = await newWork();
    await asMember(work, [700n, 300n], () =>
      untilLag(work.groupId, { total: "0", lags: ["0", "0"], backlog: "0" }),
    );
    await asMember(work, [10n, 0n], () =>
      untilLag(work.groupId, { total: "990", lags: ["690", "300"], backlog: "990" }),
    );
  });

  it("is 0 and never negative for a commit behind the end", async () => {
    const work = await newWork();
    await asMember(work, [100_000n, 300n], () =>
      untilLag(work.groupId, { total: "0", lags: ["0", "0"], backlog: "0" }),
    );
  });
});
