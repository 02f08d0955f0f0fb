/** Requests by chance, valid and invalid, over a few topics and groups. The same seed sends the same. */
import type { Json } from "../../product.ts";
import {
  batch,
  commit,
  createTopic,
  fetch,
  heartbeat,
  listOffsets,
  metadataOf,
  offsetsOf,
  produce,
  untilCoordinated,
} from "./requests.ts";
import type { Scene } from "./scene.ts";

/** A generator of numbers from 0 to 1 (mulberry32). */
export function seededChance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const PARTITIONS = 2;
const PARTITION_POOL = [0, 0, 0, 1, 1, 2, -1];
const TOPIC_POOL = ["a", "a", "a", "b", "b", "c", "absent"];
const GROUP_POOL = ["g", "g", "h"];
const OFFSET_POOL = [0, 0, 1, 2, 3, 5, 8, 20, -1, -2, 1_000_000];
const CONFIG_POOL: [string, (string | null)[]][] = [
  ["retention.ms", ["-1", "-2", "0", "86400000", "x", null]],
  ["retention.bytes", ["-1", "-2", "1000000", "1e6"]],
  ["cleanup.policy", ["delete", "compact", "compact,delete", "delete,", "none"]],
  ["max.message.bytes", ["0", "-1", "1000", "1000000"]],
  ["segment.ms", ["0", "1", "3600000"]],
  ["compression.type", ["producer", "gzip", "uncompressed", "none"]],
  ["message.timestamp.type", ["CreateTime", "LogAppendTime", "createTime"]],
  ["message.timestamp.before.max.ms", ["0", "-1", "9223372036854775807"]],
  ["min.insync.replicas", ["1", "0", "-1"]],
  ["min.cleanable.dirty.ratio", ["0", "1", "1.1", "x"]],
  ["delete.retention.ms", ["0", "-1", "1000"]],
  ["min.compaction.lag.ms", ["0", "-1", "10"]],
  ["max.compaction.lag.ms", ["0", "1", "100"]],
  ["file.delete.delay.ms", ["0", "-1"]],
  ["flush.ms", ["0", "1", "-1"]],
  ["segment.jitter.ms", ["0", "-1"]],
  ["unclean.leader.election.enable", ["true", "TRUE", "yes"]],
];

type Pick = <T>(pool: readonly T[]) => T;
type Step = (scene: Scene, pick: Pick) => Promise<unknown>;

export async function randomWalk(scene: Scene, seed: number, steps: number): Promise<void> {
  scene.scenario = "random walk";
  const chance = seededChance(seed ^ 0x5eed);
  const pick: Pick = (pool) => pool[Math.floor(chance() * pool.length)] as (typeof pool)[number];
  const kept = { "retention.ms": "-1" };
  for (const topic of ["a", "b"]) await createTopic(scene, topic, PARTITIONS, kept);
  await createTopic(scene, "c", PARTITIONS, { ...kept, "cleanup.policy": "compact" });
  for (const group of new Set(GROUP_POOL)) await untilCoordinated(scene, group, 0);
  for (let step = 0; step < steps; step++) await pick(STEPS)(scene, pick);
}

const produceStep: Step = async (scene, pick) => {
  const producerId = pick([-1, -1, 21, 22]);
  const idempotent = {
    producerId,
    producerEpoch: pick([0, 0, 1]),
    baseSequence: pick([0, 1, 2, 3]),
  };
  const records = Array.from({ length: pick([1, 1, 2, 4]) }, () => ({
    key: pick([null, "k", "l"]),
    value: pick(["v", "", null, "w".repeat(100)]),
    timestamp: pick([0, 5, 1_700_000_000_000]),
  }));
  const built = {
    records,
    codec: pick(["none", "gzip", "lz4", "snappy", "zstd"]),
    ...(producerId < 0 ? {} : idempotent),
  };
  const acks = pick([-1, -1, 1, 0, 3]);
  await produce(scene, "produce", pick(TOPIC_POOL), [built], {
    partition: pick(PARTITION_POOL),
    acks,
    // Kafka closes a connection where it may not tell of an error.
    connection: acks === 0 ? "unacknowledged" : "main",
    version: scene.version("Produce", { min: built.codec === "zstd" ? 7 : 3 }),
  });
  // What is not acknowledged is carried out before the connection's next request.
  if (acks === 0) {
    await scene.send(
      "settled",
      "ListGroups",
      {},
      { connection: "unacknowledged", unchecked: true },
    );
  }
};

const fetchStep: Step = (scene, pick) =>
  fetch(scene, "fetch", pick(TOPIC_POOL), {
    partition: pick(PARTITION_POOL),
    offset: pick(OFFSET_POOL),
    isolationLevel: pick([0, 1]),
    partitionMaxBytes: pick([0, 1, 100, 1 << 20]),
    maxBytes: pick([0, 1, 100, 1 << 20]),
    version: scene.version("Fetch", { min: 10 }),
  });

const offsetStep: Step = (scene, pick) =>
  listOffsets(
    scene,
    "list offsets",
    pick(TOPIC_POOL),
    pick([-1, -2, -3, 0, 4, 5, 6, 1_700_000_000_000, 1_800_000_000_000]),
    {
      partition: pick(PARTITION_POOL),
      isolationLevel: pick([0, 1]),
      version: scene.version("ListOffsets", { min: 7 }),
    },
  );

const commitStep: Step = (scene, pick) =>
  commit(
    scene,
    "commit",
    {
      group: pick(GROUP_POOL),
      generationId: pick([-1, -1, 0, 3]),
      memberId: pick(["", "", "nobody"]),
    },
    pick(TOPIC_POOL),
    {
      partition: pick(PARTITION_POOL),
      offset: pick(OFFSET_POOL),
      metadata: pick(["", "note", null]),
    },
  );

const committedStep: Step = (scene, pick) =>
  offsetsOf(scene, "committed", pick(GROUP_POOL), pick([...TOPIC_POOL, undefined]), {
    partitions: pick([[0], [0, 1], [], [2]]),
    version: scene.version("OffsetFetch", { min: 2 }),
  });

const configStep: Step = async (scene, pick) => {
  const [name, values] = pick(CONFIG_POOL);
  const resource = { resourceType: 2, resourceName: scene.name(pick(["x", "x", "absent"])) };
  const configs = [{ name, value: pick(values), configOperation: pick([0, 0, 0, 1, 2, 3]) }];
  await scene.send("alter a config", "IncrementalAlterConfigs", {
    resources: [{ ...resource, configs }],
    validateOnly: pick([false, false, true]),
  });
  await scene.send("config", "DescribeConfigs", {
    resources: [{ ...resource, configurationKeys: [name] }],
  });
};

const createStep: Step = async (scene, pick) => {
  const [config, values] = pick(CONFIG_POOL);
  const name = scene.name(pick(["x", "y", "z", "bad name", "a"]));
  const configs = pick([[], [], [{ name: config, value: pick(values) }]]);
  const counts: Json = {
    numPartitions: pick([1, 3, 0, -1]),
    replicationFactor: pick([1, 1, -1, 2]),
  };
  await scene.send("create", "CreateTopics", {
    topics: [{ name, ...counts, configs }],
    timeoutMs: 10_000,
    validateOnly: pick([false, false, true]),
  });
};

const deleteStep: Step = async (scene, pick) => {
  const name = scene.name(pick(["x", "y", "z", "absent"]));
  await scene.send("delete", "DeleteTopics", (version) => ({
    ...(version >= 6 ? { topics: [{ name }] } : { topicNames: [name] }),
    timeoutMs: 10_000,
  }));
  await scene.send("deleted", "Metadata", { topics: [{ name }], allowAutoTopicCreation: false });
};

const recordsStep: Step = (scene, pick) =>
  scene.send("delete records", "DeleteRecords", {
    topics: [
      {
        name: scene.name(pick(TOPIC_POOL)),
        partitions: [{ partitionIndex: pick(PARTITION_POOL), offset: pick(OFFSET_POOL) }],
      },
    ],
    timeoutMs: 5_000,
  });

const STEPS: readonly Step[] = [
  produceStep,
  produceStep,
  produceStep,
  fetchStep,
  fetchStep,
  offsetStep,
  commitStep,
  committedStep,
  configStep,
  configStep,
  createStep,
  deleteStep,
  recordsStep,
  (scene, pick) =>
    scene.send("metadata", "Metadata", metadataOf(scene, pick(TOPIC_POOL), pick(["x", "y", "z"]))),
  (scene, pick) =>
    heartbeat(scene, "heartbeat", { group: pick(GROUP_POOL), memberId: pick(["", "nobody"]) }),
  (scene, pick) => produce(scene, "produce one", pick(TOPIC_POOL), [batch([pick(["a", "b"])])]),
];
