/** Classic groups and committed offsets. */
import type { Json } from "../../../product.ts";
import {
  commit,
  createTopic,
  heartbeat,
  join,
  leave,
  type Membership,
  offsetsOf,
  PROTOCOLS,
  sync,
  untilCoordinated,
} from "../requests.ts";
import type { Scene } from "../scene.ts";

/** From here on a member joins in two steps: first it gets its id. */
const JOIN_WITH_ID = 4;
const MEMBER = { member: (answer: Json) => answer.memberId };

export async function classicGroups(scene: Scene): Promise<void> {
  await createTopic(scene, "g");
  await untilCoordinated(scene, "group", 0);
  const group = { group: "group" };
  const version = scene.version("JoinGroup");
  await join(scene, "without an id", group, { ids: MEMBER, version });
  const member = { ...group, memberId: "@member" };
  if (version >= JOIN_WITH_ID) await join(scene, "with its id", member, { version });
  await heartbeat(scene, "heartbeat before sync", member);
  await commit(scene, "commit before sync", { ...member, generationId: 1 }, "g");
  await describe(scene, "before sync", "group");
  await sync(scene, "sync with a wrong generation", { ...member, generationId: 9 });
  await sync(scene, "sync of an unknown member", { ...group, memberId: "nobody" });
  const newest = { version: scene.version("SyncGroup", { min: 5 }) };
  await sync(scene, "sync with another protocol", member, { ...newest, protocolName: "other" });
  await sync(scene, "sync with another type", member, { ...newest, protocolType: "other" });
  await sync(scene, "sync", member, { assigned: ["@member"] });
  await sync(scene, "sync again", member);
  await describe(scene, "stable", "group");
  await list(scene, "stable");
  await inGeneration(scene, member);
  await joinWrongly(scene, member);
  await deleteGroups(scene, "not empty", "group");
  await leave(scene, "leave: unknown member", { ...group, memberId: "nobody" });
  await leave(scene, "leave", member);
  await leave(scene, "leave again", member);
  await heartbeat(scene, "heartbeat after leave", member);
  await describe(scene, "empty", "group");
  await list(scene, "empty");
  await deleteGroups(scene, "empty", "group");
  await deleteGroups(scene, "deleted", "group");
  await describe(scene, "deleted", "group");
  await heartbeat(scene, "heartbeat: unknown group", { group: "absent", memberId: "nobody" });
  await sync(scene, "sync: unknown group", { group: "absent", memberId: "nobody" });
  await leave(scene, "leave: unknown group", { group: "absent", memberId: "nobody" });
}

async function inGeneration(scene: Scene, member: Membership): Promise<void> {
  await heartbeat(scene, "heartbeat", member);
  await heartbeat(scene, "heartbeat: wrong generation", { ...member, generationId: 9 });
  await heartbeat(scene, "heartbeat: older generation", { ...member, generationId: 0 });
  await heartbeat(scene, "heartbeat: unknown member", { ...member, memberId: "nobody" });
  await heartbeat(scene, "heartbeat: empty member", { ...member, memberId: "" });
  const instance = { version: scene.version("Heartbeat", { min: 3 }) };
  await heartbeat(
    scene,
    "heartbeat: unknown instance",
    { ...member, groupInstanceId: "nobody" },
    instance,
  );
  await commit(scene, "commit", { ...member, generationId: 1 }, "g");
  await commit(scene, "commit: wrong generation", { ...member, generationId: 9 }, "g");
  await commit(
    scene,
    "commit: unknown member",
    { ...member, generationId: 1, memberId: "nobody" },
    "g",
  );
  await commit(scene, "commit: as of nobody's", { group: "group" }, "g");
  await offsetsOf(scene, "offsets of the group", "group", "g");
}

async function joinWrongly(scene: Scene, member: Membership): Promise<void> {
  const group = { group: "group" };
  await join(scene, "join: unknown member", { ...group, memberId: "nobody" });
  await join(scene, "join: another protocol", group, {
    protocols: [{ ...PROTOCOLS[0], name: "other" }],
  });
  await join(scene, "join: another type", group, { protocolType: "other" });
  await join(scene, "join: no protocol", group, { protocols: [] });
  await join(scene, "join: no type", group, { protocolType: "" });
  await join(scene, "join: session is too short", group, { sessionTimeoutMs: 10 });
  await join(scene, "join: session is too long", group, { sessionTimeoutMs: 10_000_000 });
  await join(scene, "join: empty group", { group: "" }, {});
  await join(scene, "join: the member again", member);
  await sync(
    scene,
    "sync: the member again",
    { ...member, generationId: 2 },
    { assigned: ["@member"] },
  );
}

export async function staticMembers(scene: Scene): Promise<void> {
  await untilCoordinated(scene, "static", 0);
  const version = scene.version("JoinGroup", { min: 5 });
  const first = { group: "static", groupInstanceId: "one" };
  await join(scene, "joins", first, { version, ids: MEMBER });
  const newest = { version: scene.version("SyncGroup", { min: 3 }) };
  await sync(
    scene,
    "syncs",
    { ...first, memberId: "@member" },
    { ...newest, assigned: ["@member"] },
  );
  await describe(scene, "one member", "static");
  const second = { again: (answer: Json) => answer.memberId };
  await join(scene, "joins again", first, { version, ids: second });
  const beat = { version: scene.version("Heartbeat", { min: 3 }) };
  await heartbeat(scene, "heartbeat of the old one", { ...first, memberId: "@member" }, beat);
  await heartbeat(scene, "heartbeat of the new one", { ...first, memberId: "@again" }, beat);
  const commits = { version: scene.version("OffsetCommit", { min: 7, max: 9 }) };
  await commit(
    scene,
    "commit of the old one",
    { ...first, memberId: "@member", generationId: 1 },
    "g",
    commits,
  );
  await sync(scene, "sync of the old one", { ...first, memberId: "@member" }, newest);
  const left = { version: scene.version("LeaveGroup", { min: 3 }) };
  await leave(scene, "unknown instance leaves", { group: "static", groupInstanceId: "two" }, left);
  await leave(scene, "the old one leaves", { ...first, memberId: "@member" }, left);
  await leave(scene, "the instance leaves", first, left);
  await leave(scene, "the instance leaves again", first, left);
}

export async function committedOffsets(scene: Scene): Promise<void> {
  await createTopic(scene, "o", 2);
  await untilCoordinated(scene, "offsets", 0);
  const alone = { group: "offsets" };
  await commit(scene, "alone", alone, "o");
  await commit(scene, "null metadata", alone, "o", { metadata: null, partition: 1 });
  await commit(scene, "negative offset", alone, "o", { offset: -5 });
  await commit(scene, "metadata is too large", alone, "o", { metadata: "x".repeat(5_000) });
  await commit(scene, "unknown partition", alone, "o", { partition: 7 });
  await commit(scene, "unknown topic", alone, "absent");
  await commit(scene, "generation of a group without members", { ...alone, generationId: 3 }, "o");
  await commit(
    scene,
    "member of a group without members",
    { ...alone, memberId: "nobody", generationId: 3 },
    "o",
  );
  await commit(scene, "empty group", { group: "" }, "o");
  await offsetsOf(scene, "fetch one", "offsets", "o");
  await offsetsOf(scene, "fetch several", "offsets", "o", { partitions: [0, 1, 7] });
  await offsetsOf(scene, "fetch unknown topic", "offsets", "absent");
  await offsetsOf(scene, "fetch no partition", "offsets", "o", { partitions: [] });
  await offsetsOf(scene, "fetch of an unknown group", "absent", "o");
  const all = { version: scene.version("OffsetFetch", { min: 2 }) };
  await offsetsOf(scene, "fetch all", "offsets", undefined, all);
  await offsetsOf(scene, "fetch all of an unknown group", "absent", undefined, all);
  const member = {
    version: scene.version("OffsetFetch", { min: 9 }),
    memberId: "nobody",
    memberEpoch: 1,
  };
  await offsetsOf(scene, "fetch as a member", "offsets", "o", member);
  const stable = { version: scene.version("OffsetFetch", { min: 7 }), requireStable: true };
  await offsetsOf(scene, "fetch stable", "offsets", "o", stable);
  const remove = (step: string, group: string, topic: string, ...partitions: number[]) =>
    scene.send(step, "OffsetDelete", {
      groupId: scene.name(group),
      topics: [
        {
          name: scene.name(topic),
          partitions: partitions.map((partitionIndex) => ({ partitionIndex })),
        },
      ],
    });
  await remove("delete one", "offsets", "o", 1);
  await remove("delete it again", "offsets", "o", 1);
  await remove("delete of an unknown partition", "offsets", "o", 7);
  await remove("delete of an unknown topic", "offsets", "absent", 0);
  await remove("delete of an unknown group", "absent", "o", 0);
  await offsetsOf(scene, "fetch after delete", "offsets", "o", { partitions: [0, 1] });
  await describe(scene, "offsets only", "offsets");
  await deleteGroups(scene, "offsets only", "offsets");
  await offsetsOf(scene, "fetch after the group's delete", "offsets", "o");
  await deleteGroups(scene, "empty name", "");
  await coordinators(scene);
}

async function coordinators(scene: Scene): Promise<void> {
  const find = (step: string, keyType: number, key: string) =>
    scene.send(`coordinator: ${step}`, "FindCoordinator", (version) => ({
      ...(version >= 1 ? { keyType } : {}),
      ...(version >= 4 ? { coordinatorKeys: [key] } : { key }),
    }));
  await find("of a group", 0, scene.name("offsets"));
  await find("of an empty group", 0, "");
  await find("of a transaction", 1, scene.name("t"));
  await find("of an unknown kind", 9, scene.name("t"));
  await find("of a share group, bad key", 2, "x");
}

/** Kafka's group coordinators hear of a new topic later than its clients do: waits until a member gets its partitions. */
async function untilAssignable(scene: Scene, topic: string): Promise<void> {
  const group = scene.name("first to know");
  await untilCoordinated(scene, "first to know", 0);
  const version = scene.version("ConsumerGroupHeartbeat", { min: 1 });
  const member = { groupId: group, memberId: "AAAAAAAAAAAAAAAAAAAAAA" };
  const joins = {
    ...member,
    memberEpoch: 0,
    rebalanceTimeoutMs: 5_000,
    subscribedTopicNames: [scene.name(topic)],
    topicPartitions: [],
  };
  const isAssigned = (answer: Json) => answer.assignment?.topicPartitions?.length === 1;
  await scene.until("ConsumerGroupHeartbeat", joins, isAssigned, { version });
  const leaves = { ...member, memberEpoch: -1, rebalanceTimeoutMs: -1, topicPartitions: null };
  await scene.until("ConsumerGroupHeartbeat", leaves, () => true, { version });
  await deleteGroups(scene, "the first to know", "first to know");
}

/** Groups of the consumer protocol (KIP-848). */
export async function consumerGroups(scene: Scene): Promise<void> {
  await createTopic(scene, "k", 2);
  await untilCoordinated(scene, "consumers", 0);
  const beat = (
    step: string,
    memberEpoch: number,
    further: Json = {},
    group = "consumers",
    ids = {},
  ) =>
    scene.send(
      step,
      "ConsumerGroupHeartbeat",
      (version) => ({
        groupId: group === "" ? "" : scene.name(group),
        ...(version >= 1 ? { memberId: "AAAAAAAAAAAAAAAAAAAAAQ" } : {}),
        memberEpoch,
        rebalanceTimeoutMs: memberEpoch === 0 ? 5_000 : -1,
        ...(memberEpoch === 0
          ? { subscribedTopicNames: [scene.name("k")], topicPartitions: [] }
          : { topicPartitions: null }),
        ...further,
      }),
      { ids, version: scene.version("ConsumerGroupHeartbeat", { min: 1 }) },
    );
  await untilAssignable(scene, "k");
  await beat("no subscription", 0, { subscribedTopicNames: null });
  await beat("no rebalance timeout", 0, { rebalanceTimeoutMs: -1 });
  await beat("no partitions", 0, { topicPartitions: null });
  await beat("unknown assignor", 0, { serverAssignor: "none" });
  await beat("empty group", 0, {}, "");
  await beat("empty member", 0, { memberId: "" });
  await beat("bad regular expression", 0, { subscribedTopicRegex: "(" });
  await beat("unknown member goes on", 5);
  await beat("joins", 0, {}, "consumers", { epoch: (answer: Json) => answer.memberEpoch });
  await beat("wrong epoch", 99, { memberEpoch: 99 });
  await beat("goes on", 1, { memberEpoch: "@epoch" });
  for (const [step, api] of [
    ["described", "ConsumerGroupDescribe"],
    ["described as share group", "ShareGroupDescribe"],
  ] as const) {
    await scene.send(step, api, { groupIds: [scene.name("consumers"), scene.name("absent"), ""] });
  }
  await describe(scene, "as a classic group", "consumers");
  await list(scene, "consumer group");
  const joined = { ids: { classic: (answer: Json) => answer.memberId } };
  await join(scene, "classic join, no embedded protocol", { group: "consumers" }, joined);
  await commit(scene, "commit without an epoch", { group: "consumers" }, "k");
  await deleteGroups(scene, "not empty", "consumers");
  await leave(scene, "the classic member leaves", { group: "consumers", memberId: "@classic" });
  await beat("leaves", -1);
  await beat("leaves again", -1);
  await beat("static leave of an unknown member", -2, { instanceId: "nobody" });
  await deleteGroups(scene, "empty", "consumers");
  await scene.send("share group: joins", "ShareGroupHeartbeat", {
    groupId: scene.name("share"),
    memberId: "AAAAAAAAAAAAAAAAAAAAAQ",
    memberEpoch: 0,
    subscribedTopicNames: [scene.name("k")],
  });
  await scene.send("streams group: described", "StreamsGroupDescribe", {
    groupIds: [scene.name("absent")],
  });
}

async function describe(scene: Scene, step: string, group: string): Promise<void> {
  await scene.send(`describe: ${step}`, "DescribeGroups", (version) => ({
    groups: [scene.name(group)],
    ...(version >= 3 ? { includeAuthorizedOperations: false } : {}),
  }));
}

/** Lists groups of this run's state alone: the answers are those of all runs. */
async function list(scene: Scene, step: string): Promise<void> {
  await scene.send(`list: ${step}`, "ListGroups", (version) => ({
    ...(version >= 4 ? { statesFilter: ["Stable", "Empty"] } : {}),
    ...(version >= 5 ? { typesFilter: ["classic", "consumer"] } : {}),
  }));
}

async function deleteGroups(scene: Scene, step: string, group: string): Promise<void> {
  await scene.send(`delete: ${step}`, "DeleteGroups", {
    groupsNames: [group === "" ? "" : scene.name(group)],
  });
}
