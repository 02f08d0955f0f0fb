/** Creating, describing, growing and deleting topics, and their configurations. */
import type { Json } from "../../../product.ts";
import { createTopic, metadataOf, untilLed } from "../requests.ts";
import type { Scene } from "../scene.ts";

const TIMEOUT_MS = 10_000;
const TOPIC = 2;
const BROKER = 4;
const GROUP = 32;
const CLIENT_METRICS = 16;
const [SET, REMOVE, APPEND, SUBTRACT] = [0, 1, 2, 3];

export async function createTopics(scene: Scene): Promise<void> {
  const one = (name: string, further: Json = {}) => ({
    name,
    numPartitions: 1,
    replicationFactor: 1,
    ...further,
  });
  const create = (step: string, topics: Json[], further: Json = {}) =>
    scene.send(step, "CreateTopics", { topics, timeoutMs: TIMEOUT_MS, ...further });
  const config = (name: string, value: string | null) => ({ configs: [{ name, value }] });

  await create("valid", [one(scene.name("a"), { numPartitions: 3 })]);
  await untilLed(scene, "a", 3);
  await create("exists", [one(scene.name("a"))]);
  await create("only validated", [one(scene.name("v"))], { validateOnly: true });
  await create("only validated, exists", [one(scene.name("a"))], { validateOnly: true });
  await create("none", []);
  for (const [step, name] of [
    ["empty name", ""],
    ["dot", "."],
    ["dots", ".."],
    ["slash", "a/b"],
    ["space", "a b"],
    ["249 letters", scene.name("x").padEnd(249, "x")],
    ["250 letters", scene.name("y").padEnd(250, "y")],
    ["internal", "__consumer_offsets"],
    ["letters of another script", "tëst"],
  ] as const) {
    await create(`name: ${step}`, [one(name)]);
  }
  await create("collides", [one(scene.name("c.d"))]);
  await create("collides: the second", [one(scene.name("c_d"))]);
  await create("twice in one request", [one(scene.name("twice")), one(scene.name("twice"))]);
  await create("one good, one bad", [one(scene.name("good")), one("bad name")]);
  for (const numPartitions of [0, -1, -2]) {
    await create(`${numPartitions} partitions`, [
      one(scene.name(`p${numPartitions}`), { numPartitions }),
    ]);
  }
  for (const replicationFactor of [0, -1, -2, 2, 5]) {
    const name = scene.name(`r${replicationFactor}`);
    await create(`replication factor ${replicationFactor}`, [one(name, { replicationFactor })]);
  }
  await createAssigned(scene, create, one);
  for (const [name, value] of [
    ["no.such.config", "1"],
    ["retention.ms", "abc"],
    ["retention.ms", "-2"],
    ["retention.ms", "-1"],
    ["retention.ms", null],
    ["retention.ms", " 1000 "],
    ["cleanup.policy", "compact,delete"],
    ["cleanup.policy", "nothing"],
    ["cleanup.policy", ""],
    ["min.insync.replicas", "0"],
    ["min.insync.replicas", "7"],
    ["compression.type", "zstd"],
    ["compression.type", "rar"],
    ["message.timestamp.type", "LogAppendTime"],
    ["message.timestamp.type", "Never"],
    ["max.message.bytes", "-1"],
    ["segment.bytes", "1"],
    ["segment.bytes", "1048576"],
    ["unclean.leader.election.enable", "perhaps"],
    ["min.cleanable.dirty.ratio", "2"],
    ["local.retention.ms", "5"],
    ["remote.storage.enable", "true"],
    ["message.format.version", "2.0"],
    ["leader.replication.throttled.replicas", "*"],
    ["follower.replication.throttled.replicas", "x"],
    ["message.timestamp.after.max.ms", "1000"],
    ["flush.messages", "0"],
    ["index.interval.bytes", "-1"],
    ["preallocate", "true"],
  ] as const) {
    const topic = scene.name(`config-${name}-${(value ?? "null").replaceAll(/\W/g, "_")}`);
    await create(`config ${name}=${value}`, [one(topic, config(name, value))]);
  }
  const double = [
    { name: "retention.ms", value: "1" },
    { name: "retention.ms", value: "2" },
  ];
  await create("a config twice", [one(scene.name("config-twice"), { configs: double })]);
}

type Create = (step: string, topics: Json[], further?: Json) => Promise<unknown>;

async function createAssigned(
  scene: Scene,
  create: Create,
  one: (name: string, further?: Json) => Json,
): Promise<void> {
  const assigned = (name: string, assignments: [number, number[]][], further: Json = {}) =>
    one(scene.name(name), {
      numPartitions: -1,
      replicationFactor: -1,
      assignments: assignments.map(([partitionIndex, brokerIds]) => ({
        partitionIndex,
        brokerIds,
      })),
      ...further,
    });
  await create("assigned", [
    assigned("as1", [
      [0, [1]],
      [1, [1]],
    ]),
  ]);
  await create("assigned to an unknown broker", [assigned("as2", [[0, [99]]])]);
  await create("assigned with a gap", [assigned("as3", [[1, [1]]])]);
  await create("assigned twice", [
    assigned("as4", [
      [0, [1]],
      [0, [1]],
    ]),
  ]);
  await create("assigned to a broker twice", [assigned("as5", [[0, [1, 1]]])]);
  await create("assigned to nobody", [assigned("as6", [[0, []]])]);
  await create("assigned and counted", [assigned("as7", [[0, [1]]], { numPartitions: 1 })]);
  await create("assigned and replicated", [assigned("as8", [[0, [1]]], { replicationFactor: 1 })]);
}

export async function metadata(scene: Scene): Promise<void> {
  await createTopic(scene, "m", 3);
  await scene.send("one", "Metadata", metadataOf(scene, "m"));
  await scene.send("unknown", "Metadata", metadataOf(scene, "absent"));
  await scene.send("two", "Metadata", metadataOf(scene, "m", "absent"));
  await scene.send("the same twice", "Metadata", metadataOf(scene, "m", "m"));
  await scene.send("bad name", "Metadata", {
    topics: [{ name: "bad name" }],
    allowAutoTopicCreation: true,
  });
  await scene.send("empty name", "Metadata", {
    topics: [{ name: "" }],
    allowAutoTopicCreation: false,
  });
  await scene.send("none", "Metadata", (version) => ({
    topics: [],
    ...(version >= 1 ? {} : { topics: [{ name: scene.name("m") }] }),
  }));
  const authorized = { includeTopicAuthorizedOperations: true };
  await scene.send(
    "with authorized operations",
    "Metadata",
    { ...metadataOf(scene, "m"), ...authorized },
    { version: scene.version("Metadata", { min: 8 }) },
  );
  await scene.send(
    "with the cluster's authorized operations",
    "Metadata",
    { ...metadataOf(scene, "m"), includeClusterAuthorizedOperations: true },
    { version: scene.version("Metadata", { min: 8, max: 10 }) },
  );
  const byId = { version: scene.version("Metadata", { min: 12 }) };
  await scene.send("by id", "Metadata", { topics: [{ topicId: "@topic-m", name: null }] }, byId);
  const unknown = { topics: [{ topicId: "AAAAAAAAAAAAAAAAAAAAAQ", name: null }] };
  await scene.send("by unknown id", "Metadata", unknown, byId);
  const wrong = {
    topics: [{ topicId: "@topic-m", name: scene.name("other") }],
    allowAutoTopicCreation: false,
  };
  await scene.send("by id and another name", "Metadata", wrong, byId);
  const created = { topics: [{ name: scene.name("auto") }], allowAutoTopicCreation: true };
  await scene.send("creates", "Metadata", created, { unchecked: true });
  await scene.send("was created", "Metadata", metadataOf(scene, "auto"));
  await scene.send("topic partitions", "DescribeTopicPartitions", {
    topics: [{ name: scene.name("m") }, { name: scene.name("absent") }],
    responsePartitionLimit: 2,
  });
}

export async function cluster(scene: Scene): Promise<void> {
  for (const includeClusterAuthorizedOperations of [false, true]) {
    const step = `describe cluster, operations ${includeClusterAuthorizedOperations}`;
    await scene.send(step, "DescribeCluster", { includeClusterAuthorizedOperations });
  }
  const controllers = { endpointType: 2 };
  await scene.send("describe controllers", "DescribeCluster", controllers, {
    version: scene.version("DescribeCluster", { min: 1 }),
  });
  await scene.send(
    "bad endpoint type",
    "DescribeCluster",
    { endpointType: 7 },
    {
      version: scene.version("DescribeCluster", { min: 1 }),
    },
  );
  await scene.send("features", "ApiVersions", (version) =>
    version >= 3 ? { clientSoftwareName: "differential", clientSoftwareVersion: "1" } : {},
  );
  const badName = { clientSoftwareName: "bad name!", clientSoftwareVersion: "1" };
  await scene.send("bad client name", "ApiVersions", badName, {
    version: scene.version("ApiVersions", { min: 3 }),
    connection: "bad-client-name",
  });
  await scene.send("finalize features", "UpdateFeatures", {
    timeoutMs: TIMEOUT_MS,
    featureUpdates: [{ feature: "no.such.feature", maxVersionLevel: 1 }],
  });
  await scene.send("quorum", "DescribeQuorum", {
    topics: [{ topicName: "__cluster_metadata", partitions: [{ partitionIndex: 0 }] }],
  });
  await scene.send("unregister an unknown broker", "UnregisterBroker", { brokerId: 99 });
  await scene.send("config resources", "ListConfigResources", (version) =>
    version >= 1 ? { resourceTypes: [CLIENT_METRICS] } : {},
  );
  await scene.send("telemetry subscriptions", "GetTelemetrySubscriptions", {
    clientInstanceId: "AAAAAAAAAAAAAAAAAAAAAA",
  });
}

export async function partitions(scene: Scene): Promise<void> {
  await createTopic(scene, "p", 2);
  const grow = (step: string, topics: Json[], further: Json = {}) =>
    scene.send(step, "CreatePartitions", { topics, timeoutMs: TIMEOUT_MS, ...further });
  const to = (count: number, further: Json = {}) => ({
    name: scene.name("p"),
    count,
    assignments: null,
    ...further,
  });
  await grow("only validated", [to(4)], { validateOnly: true });
  await grow("valid", [to(3)]);
  await grow("the same", [to(3)]);
  await grow("fewer", [to(1)]);
  await grow("none", [to(0)]);
  await grow("negative", [to(-1)]);
  await grow("unknown topic", [{ name: scene.name("absent"), count: 3, assignments: null }]);
  await grow("bad name", [{ name: "bad name", count: 3, assignments: null }]);
  await grow("twice in one request", [to(4), to(5)]);
  await grow("assigned", [to(4, { assignments: [{ brokerIds: [1] }] })]);
  await grow("assigned to an unknown broker", [to(5, { assignments: [{ brokerIds: [99] }] })]);
  await grow("assigned too many", [
    to(5, { assignments: [{ brokerIds: [1] }, { brokerIds: [1] }] }),
  ]);
  await grow("assigned too many replicas", [to(5, { assignments: [{ brokerIds: [1, 1] }] })]);
  await grow("no topic", []);
  await scene.send("grown", "Metadata", metadataOf(scene, "p"));
}

export async function deleteTopics(scene: Scene): Promise<void> {
  await createTopic(scene, "d1");
  await createTopic(scene, "d2");
  const byName =
    (...names: string[]) =>
    (version: number) =>
      version >= 6
        ? { topics: names.map((name) => ({ name })), timeoutMs: TIMEOUT_MS }
        : { topicNames: names, timeoutMs: TIMEOUT_MS };
  await scene.send("unknown", "DeleteTopics", byName(scene.name("absent")));
  await scene.send("empty name", "DeleteTopics", byName(""));
  await scene.send("bad name", "DeleteTopics", byName("bad name"));
  await scene.send("none", "DeleteTopics", byName());
  await scene.send("valid", "DeleteTopics", byName(scene.name("d1")));
  await scene.send("gone", "Metadata", metadataOf(scene, "d1"));
  await scene.send("again", "DeleteTopics", byName(scene.name("d1")));
  const newest = { version: scene.version("DeleteTopics", { min: 6 }) };
  const byIds = (...topics: Json[]) => ({ topics, timeoutMs: TIMEOUT_MS });
  const id = { name: null, topicId: "@topic-d2" };
  await scene.send(
    "by unknown id",
    "DeleteTopics",
    byIds({ name: null, topicId: "AAAAAAAAAAAAAAAAAAAAAQ" }),
    newest,
  );
  await scene.send(
    "by id and name",
    "DeleteTopics",
    byIds({ ...id, name: scene.name("d2") }),
    newest,
  );
  await scene.send("by no name or id", "DeleteTopics", byIds({ name: null }), newest);
  await scene.send("by id twice", "DeleteTopics", byIds(id, id), newest);
  await scene.send("by id", "DeleteTopics", byIds(id), newest);
  await scene.send(
    "twice in one request",
    "DeleteTopics",
    byName(scene.name("d2"), scene.name("d2")),
  );
}

export async function describeConfigs(scene: Scene): Promise<void> {
  await createTopic(scene, "c", 1, { "retention.ms": "1000", "cleanup.policy": "compact" });
  const describe = (step: string, resources: Json[], further: Json = {}) =>
    scene.send(step, "DescribeConfigs", (version) => ({
      resources: resources.map((one) => ({ configurationKeys: null, ...one })),
      ...further,
      ...(version >= 3 ? { includeDocumentation: false } : {}),
    }));
  const topic = { resourceType: TOPIC, resourceName: scene.name("c") };
  await describe("all of a topic", [topic]);
  await describe("all of a topic with synonyms", [topic], { includeSynonyms: true });
  await describe("some of a topic", [{ ...topic, configurationKeys: ["retention.ms", "no.such"] }]);
  await describe("none of a topic", [{ ...topic, configurationKeys: [] }]);
  await describe("unknown topic", [{ ...topic, resourceName: scene.name("absent") }]);
  await describe("empty topic", [{ ...topic, resourceName: "" }]);
  await describe("bad topic", [{ ...topic, resourceName: "bad name" }]);
  const keys = [
    "log.retention.ms",
    "num.partitions",
    "message.max.bytes",
    "auto.create.topics.enable",
  ];
  await describe("some of the broker", [
    { resourceType: BROKER, resourceName: "1", configurationKeys: keys },
  ]);
  await describe("some of all brokers", [
    { resourceType: BROKER, resourceName: "", configurationKeys: keys },
  ]);
  await describe("unknown broker", [
    { resourceType: BROKER, resourceName: "99", configurationKeys: keys },
  ]);
  await describe("broker that is no number", [
    { resourceType: BROKER, resourceName: "one", configurationKeys: keys },
  ]);
  await describe("unknown type", [{ resourceType: 77, resourceName: "x" }]);
  await describe("group", [{ resourceType: GROUP, resourceName: scene.name("g") }]);
  await describe("client metrics", [
    { resourceType: CLIENT_METRICS, resourceName: scene.name("m") },
  ]);
  await describe("broker logger", [
    { resourceType: 8, resourceName: "1", configurationKeys: ["none"] },
  ]);
  await describe("the same twice", [topic, topic]);
  await describe("none", []);
}

export async function alterConfigs(scene: Scene): Promise<void> {
  await createTopic(scene, "ac", 1, { "retention.ms": "1000" });
  await createTopic(scene, "aw", 1, { "retention.ms": "1000" });
  const topic = (name: string) => ({ resourceType: TOPIC, resourceName: scene.name(name) });
  const alter = (
    step: string,
    resource: Json,
    configs: [string, number, string | null][],
    further: Json = {},
  ) =>
    scene.send(step, "IncrementalAlterConfigs", {
      resources: [
        {
          ...resource,
          configs: configs.map(([name, configOperation, value]) => ({
            name,
            configOperation,
            value,
          })),
        },
      ],
      ...further,
    });
  const shown = (step: string, name: string) =>
    scene.send(step, "DescribeConfigs", {
      resources: [
        {
          ...topic(name),
          configurationKeys: ["retention.ms", "cleanup.policy", "max.message.bytes"],
        },
      ],
    });
  await alter("set", topic("ac"), [["retention.ms", SET, "2000"]]);
  await shown("after set", "ac");
  await alter("only validated", topic("ac"), [["retention.ms", SET, "3000"]], {
    validateOnly: true,
  });
  await alter("append", topic("ac"), [["cleanup.policy", APPEND, "compact"]]);
  await shown("after append", "ac");
  await alter("append what is there", topic("ac"), [["cleanup.policy", APPEND, "compact"]]);
  await alter("append a bad element", topic("ac"), [["cleanup.policy", APPEND, "nothing"]]);
  await alter("subtract", topic("ac"), [["cleanup.policy", SUBTRACT, "delete"]]);
  await shown("after subtract", "ac");
  await alter("subtract what is not there", topic("ac"), [["cleanup.policy", SUBTRACT, "delete"]]);
  await alter("subtract the last", topic("ac"), [["cleanup.policy", SUBTRACT, "compact"]]);
  await alter("remove", topic("ac"), [["cleanup.policy", REMOVE, null]]);
  await alter("remove again", topic("ac"), [["cleanup.policy", REMOVE, null]]);
  await shown("after remove", "ac");
  await alter("append to what is no list", topic("ac"), [["retention.ms", APPEND, "1"]]);
  await alter("subtract from what is no list", topic("ac"), [["retention.ms", SUBTRACT, "1"]]);
  await alter("bad operation", topic("ac"), [["retention.ms", 9, "1"]]);
  await alter("bad value", topic("ac"), [["retention.ms", SET, "abc"]]);
  await alter("null", topic("ac"), [["retention.ms", SET, null]]);
  await alter("empty", topic("ac"), [["retention.ms", SET, ""]]);
  await alter("unknown config", topic("ac"), [["no.such", SET, "1"]]);
  await alter("remove an unknown config", topic("ac"), [["no.such", REMOVE, null]]);
  await alter("twice in one request", topic("ac"), [
    ["retention.ms", SET, "1"],
    ["retention.ms", SET, "2"],
  ]);
  await alter("one good, one bad", topic("ac"), [
    ["retention.ms", SET, "5"],
    ["segment.ms", SET, "x"],
  ]);
  await shown("after one good, one bad", "ac");
  await alter("unknown topic", topic("absent"), [["retention.ms", SET, "1"]]);
  await alter("empty topic", { resourceType: TOPIC, resourceName: "" }, [
    ["retention.ms", SET, "1"],
  ]);
  await alter("unknown type", { resourceType: 77, resourceName: "x" }, [
    ["retention.ms", SET, "1"],
  ]);
  await alter("unknown broker", { resourceType: BROKER, resourceName: "99" }, [
    ["log.cleaner.threads", SET, "1"],
  ]);
  await alter("read-only of the broker", { resourceType: BROKER, resourceName: "1" }, [
    ["node.id", SET, "7"],
  ]);
  await alter("group", { resourceType: GROUP, resourceName: scene.name("g") }, [
    ["consumer.session.timeout.ms", SET, "50000"],
  ]);
  await alter("none", topic("ac"), []);
  const whole = (
    step: string,
    resource: Json,
    configs: [string, string | null][],
    further: Json = {},
  ) =>
    scene.send(step, "AlterConfigs", {
      resources: [{ ...resource, configs: configs.map(([name, value]) => ({ name, value })) }],
      ...further,
    });
  await whole("whole: set", topic("aw"), [["max.message.bytes", "5000"]]);
  await shown("after whole: set", "aw");
  await whole("whole: only validated", topic("aw"), [["retention.ms", "1"]], {
    validateOnly: true,
  });
  await whole("whole: bad value", topic("aw"), [["retention.ms", "x"]]);
  await whole("whole: null", topic("aw"), [["retention.ms", null]]);
  await whole("whole: unknown config", topic("aw"), [["no.such", "1"]]);
  await whole("whole: unknown topic", topic("absent"), [["retention.ms", "1"]]);
  await whole("whole: unknown type", { resourceType: 77, resourceName: "x" }, []);
  await whole("whole: none", topic("aw"), []);
  await shown("after whole: none", "aw");
}
