/** Producer ids and transactions. */
import type { Json } from "../../../product.ts";
import {
  batch,
  createTopic,
  fetch,
  listOffsets,
  offsetsOf,
  produce,
  untilCoordinated,
} from "../requests.ts";
import type { Scene, SendOptions } from "../scene.ts";

const LATEST = -1;
const PRODUCER = { producer: (answer: Json) => answer.producerId };
const UNKNOWN_PRODUCER = 987_654;

export async function producerIds(scene: Scene): Promise<void> {
  const init = (step: string, further: Json, options: SendOptions = {}) =>
    scene.send(
      step,
      "InitProducerId",
      { transactionalId: null, transactionTimeoutMs: 60_000, ...further },
      options,
    );
  await init("idempotent", {});
  await init("empty transactional id", { transactionalId: "" });
  await untilCoordinated(scene, "ids", 1);
  const id = { transactionalId: scene.name("ids") };
  await init("no timeout", { ...id, transactionTimeoutMs: 0 });
  await init("negative timeout", { ...id, transactionTimeoutMs: -1 });
  await init("too long a timeout", { ...id, transactionTimeoutMs: 2_000_000_000 });
  await init("first", id, { ids: PRODUCER });
  await init("second", id);
  const version = scene.version("InitProducerId", { min: 3 });
  await init(
    "with its id and epoch",
    { ...id, producerId: "@producer", producerEpoch: 1 },
    { version },
  );
  await init(
    "with an older epoch",
    { ...id, producerId: "@producer", producerEpoch: 0 },
    { version },
  );
  await init(
    "with another's id",
    { ...id, producerId: UNKNOWN_PRODUCER, producerEpoch: 0 },
    { version },
  );
  await init("epoch without an id", { ...id, producerEpoch: 3 }, { version });
  await init(
    "id of a new transactional id",
    { transactionalId: scene.name("ids-new"), producerId: UNKNOWN_PRODUCER, producerEpoch: 2 },
    { version },
  );
}

export async function transactions(scene: Scene): Promise<void> {
  await createTopic(scene, "tx", 2);
  await untilCoordinated(scene, "tx", 1);
  await untilCoordinated(scene, "tx-group", 0);
  await scene.send(
    "init",
    "InitProducerId",
    { transactionalId: scene.name("tx"), transactionTimeoutMs: 60_000 },
    { ids: PRODUCER },
  );
  await wrongRequests(scene);
  await add(scene, "add a partition", "tx", [0]);
  await add(scene, "add it again", "tx", [0]);
  await write(scene, "write", 0);
  await scene.send("describe: ongoing", "DescribeTransactions", {
    transactionalIds: [scene.name("tx"), scene.name("absent"), ""],
  });
  await scene.send("list", "ListTransactions", {
    stateFilters: ["Ongoing"],
    producerIdFilters: [],
  });
  await scene.send("list: unknown state", "ListTransactions", { stateFilters: ["None"] });
  await scene.send("producers: ongoing", "DescribeProducers", {
    topics: [{ name: scene.name("tx"), partitionIndexes: [0] }],
  });
  await fetch(scene, "committed only, ongoing", "tx", { isolationLevel: 1 });
  await fetch(scene, "all, ongoing", "tx");
  const committed = { isolationLevel: 1, version: scene.version("ListOffsets", { min: 2 }) };
  await listOffsets(scene, "last stable offset", "tx", LATEST, committed);
  await groupOffsets(scene);
  await end(scene, "commit", true);
  await fetch(scene, "committed only, after commit", "tx", { isolationLevel: 1 });
  await fetch(scene, "all, after commit", "tx");
  await listOffsets(scene, "last stable offset, after commit", "tx", LATEST, committed);
  await offsetsOf(scene, "offsets after commit", "tx-group", "tx");
  await scene.send("describe: complete", "DescribeTransactions", {
    transactionalIds: [scene.name("tx")],
  });
  await aborted(scene);
}

async function wrongRequests(scene: Scene): Promise<void> {
  await end(scene, "commit of nothing", true);
  await end(scene, "abort of nothing", false);
  await end(scene, "commit: unknown id", true, { transactionalId: scene.name("absent") });
  await end(scene, "commit: unknown producer", true, { producerId: UNKNOWN_PRODUCER });
  await end(scene, "commit: future epoch", true, { producerEpoch: 99 });
  await end(scene, "commit: empty id", true, { transactionalId: "" });
  await add(scene, "add: unknown partition", "tx", [7]);
  await add(scene, "add: unknown topic", "absent", [0]);
  await add(scene, "add: one known, one unknown", "tx", [0, 7]);
  await add(scene, "add: unknown producer", "tx", [0], { v3AndBelowProducerId: UNKNOWN_PRODUCER });
  await add(scene, "add: future epoch", "tx", [0], { v3AndBelowProducerEpoch: 99 });
  await add(scene, "add: empty id", "tx", [0], { v3AndBelowTransactionalId: "" });
  await add(scene, "add: unknown id", "tx", [0], {
    v3AndBelowTransactionalId: scene.name("absent"),
  });
  await write(scene, "write to a partition that was not added", 0, 1);
  await write(scene, "write with a future epoch", 0, 0, 99);
}

async function groupOffsets(scene: Scene): Promise<void> {
  const offsets = (step: string, further: Json = {}) =>
    scene.send(step, "AddOffsetsToTxn", {
      transactionalId: scene.name("tx"),
      producerId: "@producer",
      producerEpoch: 0,
      groupId: scene.name("tx-group"),
      ...further,
    });
  const commits = (step: string, further: Json = {}) =>
    scene.send(step, "TxnOffsetCommit", (version) => {
      const { generationId, memberId, ...others } = further;
      return {
        transactionalId: scene.name("tx"),
        groupId: scene.name("tx-group"),
        producerId: "@producer",
        producerEpoch: 0,
        topics: [
          {
            name: scene.name("tx"),
            partitions: [{ partitionIndex: 0, committedOffset: 3, committedMetadata: "note" }],
          },
        ],
        ...(version >= 3 && memberId !== undefined ? { generationId, memberId } : {}),
        ...others,
      };
    });
  await offsets("add offsets: unknown producer", { producerId: UNKNOWN_PRODUCER });
  await offsets("add offsets: future epoch", { producerEpoch: 99 });
  await offsets("add offsets: empty group", { groupId: "" });
  await offsets("add offsets");
  await commits("offsets: unknown member", { generationId: 4, memberId: "nobody" });
  await commits("offsets: unknown partition", {
    topics: [
      { name: scene.name("absent"), partitions: [{ partitionIndex: 0, committedOffset: 1 }] },
    ],
  });
  await commits("offsets: empty group", { groupId: "" });
  await commits("offsets");
  await offsetsOf(scene, "offsets while ongoing", "tx-group", "tx");
  const stable = { version: scene.version("OffsetFetch", { min: 7 }), requireStable: true };
  await offsetsOf(scene, "stable offsets while ongoing", "tx-group", "tx", stable);
}

async function aborted(scene: Scene): Promise<void> {
  await untilCoordinated(scene, "tx-abort", 1);
  const transactionalId = scene.name("tx-abort");
  const ids = { aborting: (answer: Json) => answer.producerId };
  await scene.send(
    "abort: init",
    "InitProducerId",
    { transactionalId, transactionTimeoutMs: 60_000 },
    { ids },
  );
  const who = { v3AndBelowTransactionalId: transactionalId, v3AndBelowProducerId: "@aborting" };
  await add(scene, "abort: add", "tx", [1], who);
  const records = batch(["x", "y"], { producerId: "@aborting", isTransactional: true });
  await produce(scene, "abort: write", "tx", [records], { partition: 1, transactionalId });
  await scene.send(
    "abort: fenced by its successor",
    "InitProducerId",
    { transactionalId, transactionTimeoutMs: 60_000 },
    { settles: true },
  );
  await end(scene, "abort: end of the fenced", true, { transactionalId, producerId: "@aborting" });
  await produce(scene, "abort: write of the fenced", "tx", [records], {
    partition: 1,
    transactionalId,
  });
  await fetch(scene, "abort: committed only", "tx", { partition: 1, isolationLevel: 1 });
  await fetch(scene, "abort: all", "tx", { partition: 1 });
}

async function add(
  scene: Scene,
  step: string,
  topic: string,
  partitions: number[],
  further: Json = {},
): Promise<void> {
  await scene.send(
    step,
    "AddPartitionsToTxn",
    {
      v3AndBelowTransactionalId: scene.name("tx"),
      v3AndBelowProducerId: "@producer",
      v3AndBelowProducerEpoch: 0,
      v3AndBelowTopics: [{ name: scene.name(topic), partitions }],
      ...further,
    },
    // Newer versions are those of brokers.
    { version: scene.version("AddPartitionsToTxn", { max: 3 }) },
  );
}

async function end(
  scene: Scene,
  step: string,
  committed: boolean,
  further: Json = {},
): Promise<void> {
  await scene.send(
    step,
    "EndTxn",
    {
      transactionalId: scene.name("tx"),
      producerId: "@producer",
      producerEpoch: 0,
      committed,
      ...further,
    },
    { version: scene.version("EndTxn", { max: 4 }) },
  );
}

async function write(
  scene: Scene,
  step: string,
  baseSequence: number,
  partition = 0,
  producerEpoch = 0,
): Promise<void> {
  const records = batch(["a", "b"], {
    producerId: "@producer",
    producerEpoch,
    baseSequence,
    isTransactional: true,
  });
  const version = scene.version("Produce", { max: 11 });
  await produce(scene, step, "tx", [records], {
    partition,
    transactionalId: scene.name("tx"),
    version,
  });
}

/** Transactions of the second version (KIP-890): no partition is added beforehand, the epoch rises with each end. */
export async function transactionsOfVersion2(scene: Scene): Promise<void> {
  await createTopic(scene, "tv", 1);
  await untilCoordinated(scene, "tv", 1);
  const transactionalId = scene.name("tv");
  await scene.send(
    "init",
    "InitProducerId",
    { transactionalId, transactionTimeoutMs: 60_000 },
    { ids: PRODUCER },
  );
  const version = scene.version("Produce", { min: 12 });
  const ended = { version: scene.version("EndTxn", { min: 5 }) };
  const finish = (step: string, producerEpoch: number, committed: boolean) =>
    scene.send(
      step,
      "EndTxn",
      { transactionalId, producerId: "@producer", producerEpoch, committed },
      ended,
    );
  const records = (producerEpoch: number, baseSequence: number) => [
    batch(["a"], { producerId: "@producer", producerEpoch, baseSequence, isTransactional: true }),
  ];
  await produce(scene, "write", "tv", records(0, 0), { transactionalId, version });
  await finish("commit", 0, true);
  await finish("commit again", 0, true);
  await produce(scene, "write with the old epoch", "tv", records(0, 1), {
    transactionalId,
    version,
  });
  await produce(scene, "write with the new epoch", "tv", records(1, 0), {
    transactionalId,
    version,
  });
  await finish("abort", 1, false);
  await finish("abort of nothing", 2, false);
  await finish("commit of nothing", 3, true);
  await fetch(scene, "committed only", "tv", { isolationLevel: 1 });
}
