/** Requests that several scenarios send, in the form that each version has. */
import type { Json } from "../../product.ts";
import type { Answers, Scene, SendOptions } from "./scene.ts";

/** Versions from which on topics go by their ids. */
const PRODUCE_BY_ID = 13;
const FETCH_BY_ID = 13;
const METADATA_WITH_IDS = 10;
const COMMIT_BY_ID = 10;
const OFFSETS_OF_GROUPS = 8;
const COORDINATOR_KEYS = 4;
const LEAVE_MEMBERS = 3;

/** What names a topic in a request. */
function topicOf(scene: Scene, topic: string, byId: boolean, field = "name"): Json {
  return byId ? { topicId: `@topic-${topic}` } : { [field]: scene.name(topic) };
}

/** The empty name stays empty. */
function groupId(scene: Scene, group: string): string {
  return group === "" ? "" : scene.name(group);
}

/** Creates a topic on both and waits until it can be used. */
export async function createTopic(
  scene: Scene,
  topic: string,
  numPartitions = 1,
  configs: Record<string, string> = {},
): Promise<void> {
  const named = Object.entries(configs).map(([name, value]) => ({ name, value }));
  const one = { name: scene.name(topic), numPartitions, replicationFactor: 1, configs: named };
  await scene.send(
    "prepare",
    "CreateTopics",
    { topics: [one], timeoutMs: 10_000 },
    { unchecked: true },
  );
  await untilLed(scene, topic, numPartitions);
}

/** Waits until every partition has a leader, and learns the topic's id. */
export async function untilLed(scene: Scene, topic: string, partitions: number): Promise<void> {
  const led = (answer: Json) =>
    answer.topics?.[0]?.errorCode === 0 &&
    answer.topics[0].partitions.length === partitions &&
    answer.topics[0].partitions.every((one: Json) => one.errorCode === 0 && one.leaderId >= 0);
  await scene.until("Metadata", metadataOf(scene, topic), led, {
    version: scene.version("Metadata", { min: METADATA_WITH_IDS }),
    ids: {
      [`topic-${topic}`]: (answer) => answer.topics[0].topicId,
      [`epoch-${topic}`]: (answer) => answer.topics[0].partitions[0].leaderEpoch,
    },
  });
}

export function metadataOf(scene: Scene, ...topics: string[]): Json {
  return {
    topics: topics.map((topic) => ({ name: scene.name(topic) })),
    allowAutoTopicCreation: false,
  };
}

export interface ProduceOptions extends SendOptions {
  partition?: number;
  acks?: number;
  transactionalId?: string;
}

/** Sends batches as Wire.java builds them. */
export function produce(
  scene: Scene,
  step: string,
  topic: string,
  batches: Json,
  options: ProduceOptions = {},
): Promise<Answers> {
  const { partition = 0, acks = -1, transactionalId = null } = options;
  const body = (version: number) => ({
    transactionalId,
    acks,
    timeoutMs: 5_000,
    topicData: [
      {
        ...topicOf(scene, topic, version >= PRODUCE_BY_ID),
        partitionData: [{ index: partition, records: batches }],
      },
    ],
  });
  return scene.send(step, "Produce", body, options);
}

/** One batch of records with these values, without keys. */
export function batch(values: string[], further: Json = {}): Json {
  return { records: values.map((value) => ({ value })), ...further };
}

export interface FetchOptions extends SendOptions {
  partition?: number;
  offset?: number;
  isolationLevel?: number;
  maxBytes?: number;
  partitionMaxBytes?: number;
  sessionId?: Json;
  sessionEpoch?: number;
  currentLeaderEpoch?: Json;
  lastFetchedEpoch?: Json;
  minBytes?: number;
}

export function fetch(
  scene: Scene,
  step: string,
  topic: string,
  options: FetchOptions = {},
): Promise<Answers> {
  const { partition = 0, offset = 0, isolationLevel = 0, maxBytes = 1 << 20 } = options;
  const { sessionId = 0, sessionEpoch = -1, partitionMaxBytes = 1 << 20, minBytes = 0 } = options;
  const { currentLeaderEpoch = -1, lastFetchedEpoch = -1 } = options;
  const body = (version: number) => ({
    maxWaitMs: 0,
    minBytes,
    maxBytes,
    isolationLevel,
    // Older versions have no sessions.
    ...(version >= 7 ? { sessionId, sessionEpoch } : {}),
    topics: [
      {
        ...topicOf(scene, topic, version >= FETCH_BY_ID, "topic"),
        partitions: [
          {
            partition,
            fetchOffset: offset,
            partitionMaxBytes,
            ...(version >= 9 ? { currentLeaderEpoch } : {}),
            ...(version >= 12 ? { lastFetchedEpoch } : {}),
          },
        ],
      },
    ],
  });
  return scene.send(step, "Fetch", body, options);
}

export function listOffsets(
  scene: Scene,
  step: string,
  topic: string,
  timestamp: number,
  further: {
    partition?: number;
    isolationLevel?: number;
    currentLeaderEpoch?: number;
    version?: number;
  } = {},
): Promise<Answers> {
  const { partition = 0, isolationLevel = 0, currentLeaderEpoch = -1, version } = further;
  const body = (version: number) => ({
    replicaId: -1,
    ...(version >= 2 ? { isolationLevel } : {}),
    topics: [
      {
        name: scene.name(topic),
        partitions: [
          { partitionIndex: partition, timestamp, ...(version >= 4 ? { currentLeaderEpoch } : {}) },
        ],
      },
    ],
  });
  return scene.send(step, "ListOffsets", body, version === undefined ? {} : { version });
}

/** Waits until both have a coordinator for this group (0) or transactional id (1). */
export async function untilCoordinated(scene: Scene, key: string, keyType: 0 | 1): Promise<void> {
  const body = (version: number) =>
    version >= COORDINATOR_KEYS
      ? { keyType, coordinatorKeys: [scene.name(key)] }
      : { keyType, key: scene.name(key) };
  const found = (answer: Json) => (answer.coordinators?.[0] ?? answer).errorCode === 0;
  await scene.until("FindCoordinator", body, found, {
    version: scene.version("FindCoordinator", { min: 1 }),
  });
}

export interface Membership {
  group: string;
  /** Of the member as known: `@name`, or the empty text before it has one. */
  memberId?: string;
  generationId?: number;
  groupInstanceId?: string | null;
}

export interface JoinOptions extends SendOptions {
  protocols?: Json[];
  protocolType?: string;
  sessionTimeoutMs?: number;
  rebalanceTimeoutMs?: number;
}

/** Bytes of a subscription that nobody reads: protocols of `differential` are the test's own. */
export const PROTOCOLS = [{ name: "own", metadata: Buffer.from("metadata").toString("base64") }];

export function join(
  scene: Scene,
  step: string,
  { group, memberId = "", groupInstanceId = null }: Membership,
  options: JoinOptions = {},
): Promise<Answers> {
  const { protocols = PROTOCOLS, protocolType = "differential" } = options;
  const { sessionTimeoutMs = 10_000, rebalanceTimeoutMs = 3_000 } = options;
  const body = (version: number) => ({
    groupId: groupId(scene, group),
    sessionTimeoutMs,
    ...(version >= 1 ? { rebalanceTimeoutMs } : {}),
    memberId,
    ...(version >= 5 ? { groupInstanceId } : {}),
    protocolType,
    protocols,
  });
  return scene.send(step, "JoinGroup", body, options);
}

export function sync(
  scene: Scene,
  step: string,
  { group, memberId = "", generationId = 1, groupInstanceId = null }: Membership,
  options: SendOptions & { assigned?: string[]; protocolName?: string; protocolType?: string } = {},
): Promise<Answers> {
  const { assigned = [], protocolName = "own", protocolType = "differential" } = options;
  const body = (version: number) => ({
    groupId: groupId(scene, group),
    generationId,
    memberId,
    ...(version >= 3 ? { groupInstanceId } : {}),
    ...(version >= 5 ? { protocolType, protocolName } : {}),
    assignments: assigned.map((id) => ({
      memberId: id,
      assignment: Buffer.from("assignment").toString("base64"),
    })),
  });
  return scene.send(step, "SyncGroup", body, options);
}

export function heartbeat(
  scene: Scene,
  step: string,
  { group, memberId = "", generationId = 1, groupInstanceId = null }: Membership,
  options: SendOptions = {},
): Promise<Answers> {
  const body = (version: number) => ({
    groupId: groupId(scene, group),
    generationId,
    memberId,
    ...(version >= 3 ? { groupInstanceId } : {}),
  });
  return scene.send(step, "Heartbeat", body, options);
}

export function leave(
  scene: Scene,
  step: string,
  { group, memberId = "", groupInstanceId = null }: Membership,
  options: SendOptions = {},
): Promise<Answers> {
  const body = (version: number) =>
    version >= LEAVE_MEMBERS
      ? { groupId: groupId(scene, group), members: [{ memberId, groupInstanceId }] }
      : { groupId: groupId(scene, group), memberId };
  return scene.send(step, "LeaveGroup", body, options);
}

export interface CommitOptions extends SendOptions {
  partition?: number;
  offset?: number;
  metadata?: string | null;
}

export function commit(
  scene: Scene,
  step: string,
  { group, memberId = "", generationId = -1, groupInstanceId = null }: Membership,
  topic: string,
  options: CommitOptions = {},
): Promise<Answers> {
  const { partition = 0, offset = 5, metadata = "note" } = options;
  const body = (version: number) => ({
    groupId: groupId(scene, group),
    generationIdOrMemberEpoch: generationId,
    memberId,
    ...(version >= 7 ? { groupInstanceId } : {}),
    topics: [
      {
        ...topicOf(scene, topic, version >= COMMIT_BY_ID),
        partitions: [
          { partitionIndex: partition, committedOffset: offset, committedMetadata: metadata },
        ],
      },
    ],
  });
  return scene.send(step, "OffsetCommit", body, options);
}

/** @param topic without one, all topics of the group. */
export function offsetsOf(
  scene: Scene,
  step: string,
  group: string,
  topic: string | undefined,
  options: SendOptions & {
    partitions?: number[];
    requireStable?: boolean;
    memberEpoch?: number;
    memberId?: string;
  } = {},
): Promise<Answers> {
  const { partitions = [0], requireStable = false, memberId, memberEpoch } = options;
  const body = (version: number) => {
    const topics =
      topic === undefined
        ? null
        : [
            {
              ...topicOf(scene, topic, version >= COMMIT_BY_ID),
              partitionIndexes: partitions,
            },
          ];
    const stable = version >= 7 ? { requireStable } : {};
    if (version < OFFSETS_OF_GROUPS) {
      // Version 1 has no way to ask for all.
      return {
        groupId: groupId(scene, group),
        topics: topics === null && version < 2 ? [] : topics,
        ...stable,
      };
    }
    const member = version >= 9 && memberId !== undefined ? { memberId, memberEpoch } : {};
    return { groups: [{ groupId: groupId(scene, group), topics, ...member }], ...stable };
  };
  return scene.send(step, "OffsetFetch", body, options);
}
