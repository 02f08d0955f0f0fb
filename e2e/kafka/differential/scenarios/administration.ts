/** Leaders, reassignments, quotas, users, tokens and ACLs, on brokers without an authorizer. */
import type { Json } from "../../../product.ts";
import { createTopic } from "../requests.ts";
import type { Scene } from "../scene.ts";

const TIMEOUT_MS = 10_000;
const [SHA_256, SHA_512] = [1, 2];
const [EXACT, DEFAULT, ANY] = [0, 1, 2];

export async function leaders(scene: Scene): Promise<void> {
  await createTopic(scene, "e", 2);
  const elect = (step: string, topicPartitions: Json, electionType = 0) =>
    scene.send(step, "ElectLeaders", (version) => ({
      ...(version >= 1 ? { electionType } : {}),
      topicPartitions,
      timeoutMs: TIMEOUT_MS,
    }));
  const partition = (topic: string, ...partitions: number[]) => [
    { topic: scene.name(topic), partitions },
  ];
  await elect("preferred", partition("e", 0, 1));
  await elect("unclean", partition("e", 0), 1);
  await elect("unknown partition", partition("e", 7));
  await elect("unknown topic", partition("absent", 0));
  await elect("one known, one unknown", partition("e", 0, 7));
  await elect("none", []);
  const move = (
    step: string,
    topic: string,
    partitionIndex: number,
    replicas: number[] | null,
    further: Json = {},
  ) =>
    scene.send(step, "AlterPartitionReassignments", {
      topics: [{ name: scene.name(topic), partitions: [{ partitionIndex, replicas }] }],
      timeoutMs: TIMEOUT_MS,
      ...further,
    });
  await move("reassign to where it is", "e", 0, [1]);
  await move("reassign to an unknown broker", "e", 0, [99]);
  await move("reassign to a broker twice", "e", 0, [1, 1]);
  await move("reassign to nobody", "e", 0, []);
  await move("reassign to a negative broker", "e", 0, [-1]);
  await move("cancel where nothing moves", "e", 0, null);
  await move("reassign an unknown partition", "e", 7, [1]);
  await move("reassign an unknown topic", "absent", 0, [1]);
  const listed = (step: string, topics: Json) =>
    scene.send(step, "ListPartitionReassignments", { topics, timeoutMs: TIMEOUT_MS });
  await listed("list all", null);
  await listed("list one", [{ name: scene.name("e"), partitionIndexes: [0] }]);
  await listed("list unknown", [{ name: scene.name("absent"), partitionIndexes: [0] }]);
}

export async function quotas(scene: Scene): Promise<void> {
  const user = scene.name("user");
  const alter = (step: string, entity: Json[], ops: Json[], further: Json = {}) =>
    scene.send(step, "AlterClientQuotas", {
      entries: [{ entity, ops }],
      validateOnly: false,
      ...further,
    });
  const of = (entityType: string, entityName: string | null) => ({ entityType, entityName });
  const set = (key: string, value: number) => ({ key, value, remove: false });
  await alter("only validated", [of("user", user)], [set("producer_byte_rate", 1000)], {
    validateOnly: true,
  });
  await alter("of a user", [of("user", user)], [set("producer_byte_rate", 1000)]);
  await alter(
    "of a user and client",
    [of("user", user), of("client-id", "c")],
    [set("request_percentage", 50)],
  );
  await alter("of an address", [of("ip", "127.0.0.9")], [set("connection_creation_rate", 10)]);
  await alter("of a bad address", [of("ip", "no address!")], [set("connection_creation_rate", 10)]);
  await alter(
    "of an address, fraction",
    [of("ip", "127.0.0.9")],
    [set("connection_creation_rate", 1.5)],
  );
  await alter(
    "of an address and user",
    [of("ip", "127.0.0.9"), of("user", user)],
    [set("connection_creation_rate", 1)],
  );
  await alter("wrong key for an address", [of("ip", "127.0.0.9")], [set("producer_byte_rate", 1)]);
  await alter("unknown key", [of("user", user)], [set("no_such", 1)]);
  await alter("unknown entity", [of("planet", "x")], [set("producer_byte_rate", 1)]);
  await alter("no entity", [], [set("producer_byte_rate", 1)]);
  await alter(
    "the same entity twice",
    [of("user", scene.name("twice")), of("user", scene.name("twice"))],
    [set("producer_byte_rate", 1)],
  );
  await alter("empty name", [of("user", "")], [set("producer_byte_rate", 1)]);
  await alter("negative", [of("user", user)], [set("producer_byte_rate", -1)]);
  await alter("nothing", [of("user", user)], [set("producer_byte_rate", 0)]);
  await alter("fraction of bytes", [of("user", user)], [set("producer_byte_rate", 1.5)]);
  await alter("fraction of a percentage", [of("user", user)], [set("request_percentage", 1.5)]);
  await alter(
    "remove what is not there",
    [of("user", user)],
    [{ key: "consumer_byte_rate", value: 0, remove: true }],
  );
  await alter("no operation", [of("user", user)], []);
  const describe = (step: string, components: Json[], strict = false) =>
    scene.send(`describe: ${step}`, "DescribeClientQuotas", { components, strict });
  await describe("a user", [{ entityType: "user", matchType: EXACT, match: user }]);
  await describe("a user strictly", [{ entityType: "user", matchType: EXACT, match: user }], true);
  await describe("an address", [{ entityType: "ip", matchType: EXACT, match: "127.0.0.9" }]);
  await describe("the default user", [{ entityType: "user", matchType: DEFAULT, match: null }]);
  await describe("unknown entity", [{ entityType: "planet", matchType: EXACT, match: "x" }]);
  await describe("bad match", [{ entityType: "user", matchType: 9, match: null }]);
  await describe("exactly nothing", [{ entityType: "user", matchType: EXACT, match: null }]);
  await describe("any with a name", [{ entityType: "client-id", matchType: ANY, match: "x" }]);
  await describe("empty entity type", [{ entityType: "", matchType: ANY, match: null }]);
  await describe("the same type twice", [
    { entityType: "user", matchType: EXACT, match: user },
    { entityType: "user", matchType: ANY, match: null },
  ]);
  await describe("user and address", [
    { entityType: "user", matchType: EXACT, match: user },
    { entityType: "ip", matchType: ANY, match: null },
  ]);
  await alter(
    "removed",
    [of("user", user)],
    [{ key: "producer_byte_rate", value: 0, remove: true }],
  );
  await describe("after the removal", [{ entityType: "user", matchType: EXACT, match: user }]);
}

export async function users(scene: Scene): Promise<void> {
  const name = scene.name("alice");
  const salt = Buffer.from("salt of the user").toString("base64");
  const saltedPassword = Buffer.alloc(32, 7).toString("base64");
  const up = (further: Json = {}) => ({
    name,
    mechanism: SHA_256,
    iterations: 4_096,
    salt,
    saltedPassword,
    ...further,
  });
  const alter = (step: string, upsertions: Json[], deletions: Json[] = []) =>
    scene.send(step, "AlterUserScramCredentials", { deletions, upsertions });
  await alter("add", [up()]);
  await alter("too few iterations", [up({ iterations: 100 })]);
  await alter("too many iterations", [up({ iterations: 1_000_000 })]);
  await alter("unknown mechanism", [up({ mechanism: 9 })]);
  await alter("empty user", [up({ name: "" })]);
  await alter("twice", [up(), up()]);
  await alter("add and remove", [up()], [{ name, mechanism: SHA_256 }]);
  const other = { name: scene.name("both") };
  const longer = { mechanism: SHA_512, saltedPassword: Buffer.alloc(64, 7).toString("base64") };
  await alter("both mechanisms", [up(other), up({ ...other, ...longer })]);
  await alter("remove what is not there", [], [{ name: scene.name("nobody"), mechanism: SHA_256 }]);
  await alter("remove with an unknown mechanism", [], [{ name, mechanism: 9 }]);
  await alter("none", []);
  const describe = (step: string, users: Json) =>
    scene.send(`describe: ${step}`, "DescribeUserScramCredentials", { users });
  await describe("one", [{ name }]);
  await describe("unknown", [{ name: scene.name("nobody") }]);
  await describe("twice", [{ name }, { name }]);
  await describe("empty name", [{ name: "" }]);
  await alter("remove", [], [{ name, mechanism: SHA_256 }]);
  await describe("after the removal", [{ name }]);
}

export async function security(scene: Scene): Promise<void> {
  const filter = {
    resourceTypeFilter: 1,
    resourceNameFilter: null,
    patternTypeFilter: 1,
    principalFilter: null,
    hostFilter: null,
    operation: 1,
    permissionType: 1,
  };
  await scene.send("describe ACLs", "DescribeAcls", filter);
  await scene.send("create ACLs", "CreateAcls", {
    creations: [
      {
        resourceType: 2,
        resourceName: "t",
        resourcePatternType: 3,
        principal: "User:x",
        host: "*",
        operation: 3,
        permissionType: 3,
      },
    ],
  });
  await scene.send("delete ACLs", "DeleteAcls", { filters: [filter] });
  await scene.send("create token", "CreateDelegationToken", { renewers: [], maxLifetimeMs: -1 });
  await scene.send("describe tokens", "DescribeDelegationToken", { owners: null });
  await scene.send("renew token", "RenewDelegationToken", { hmac: "AAAA", renewPeriodMs: -1 });
  await scene.send("expire token", "ExpireDelegationToken", {
    hmac: "AAAA",
    expiryTimePeriodMs: -1,
  });
  await scene.send(
    "handshake",
    "SaslHandshake",
    { mechanism: "PLAIN" },
    { connection: "handshake" },
  );
  await scene.send(
    "authenticate",
    "SaslAuthenticate",
    { authBytes: "AAAA" },
    { connection: "authenticate" },
  );
}
