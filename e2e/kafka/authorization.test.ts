/**
 * ACLs and delegation tokens: stock clients are refused what they may not do, and Kafka's own tools and clients see what
 * they see at Apache Kafka.
 */
import { inspect } from "node:util";
import {
  type Acl,
  type AclFilter,
  AclOperations,
  AclPermissionTypes,
  Admin,
  ConfigResourceTypes,
  Producer,
  ResourcePatternTypes,
  ResourceTypes,
  stringSerializers,
} from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { unique } from "../product.ts";
import { ApacheKafka, DELEGATION_TOKENS } from "./apache-kafka.ts";
import { delegationTokens } from "./clients/delegation-tokens.ts";
import { kafkaTool } from "./clients/java.ts";
import {
  java,
  kafkajs,
  librdkafka,
  platformatic,
  platformaticOptions,
  type SignIn,
} from "./clients/signed-in.ts";
import { PLAIN_USER, ProtectedBroker } from "./protected-broker.ts";

const hasJava = Boolean(process.env.MILLRACE_KAFKA_JARS);
const clients = [
  process.env.MILLRACE_KCAT === "" ? undefined : librdkafka,
  hasJava ? java : undefined,
  kafkajs,
  platformatic,
].filter((client) => client !== undefined);

const PRINCIPAL = `User:${PLAIN_USER.username}`;
const DENIED = /not authorized|authorization failed|authorization_failed/i;

const { ANY, TOPIC, GROUP, CLUSTER } = ResourceTypes;
const { LITERAL, PREFIXED, MATCH } = ResourcePatternTypes;
const UNKNOWN = "UNKNOWN_SERVER_ERROR";
const { ALL, READ, WRITE, DESCRIBE, IDEMPOTENT_WRITE } = AclOperations;
const { ALLOW, DENY } = AclPermissionTypes;

const acl = (resourceName: string, operation: Acl["operation"], other?: Partial<Acl>): Acl => ({
  ...{ resourceType: TOPIC, resourcePatternType: LITERAL, host: "*", permissionType: ALLOW },
  ...{ principal: PRINCIPAL, resourceName, operation, ...other },
});

const everything: AclFilter = {
  ...{ resourceType: ANY, resourcePatternType: ResourcePatternTypes.ANY },
  ...{ operation: AclOperations.ANY, permissionType: AclPermissionTypes.ANY },
  ...{ resourceName: null, principal: null, host: null },
};

/** Runs `use` as the client that the settings describe. */
async function as<T>(signIn: SignIn, use: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = new Admin(platformaticOptions(signIn));
  try {
    return await use(admin);
  } finally {
    await admin.close();
  }
}

describe.skipIf(process.env.MILLRACE_OPENSSL === "")("ACLs", () => {
  const broker = new ProtectedBroker(
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    DELEGATION_TOKENS,
  );
  const paula: SignIn = { ...PLAIN_USER, ...connection("SASL_SSL") };
  const operator: SignIn = { ...PLAIN_USER, ...connection("PLAINTEXT") };

  function connection(protocol: "SASL_SSL" | "PLAINTEXT") {
    const caFile = broker.caFile;
    return { protocol, caFile, mechanism: "PLAIN" as const, bootstrap: "" };
  }

  beforeAll(async () => {
    await broker.create();
    paula.bootstrap = broker.bootstrap("SASL_SSL");
    operator.bootstrap = broker.bootstrap("PLAINTEXT");
  });
  afterAll(() => broker.remove());

  it.each(clients.map((client) => [client.name, client] as const))(
    "%s writes and reads what it may, and is told what it may not",
    async (name, client) => {
      const topic = unique(`denied-${name}`.replace(/[^\w-]/g, "-"));
      const values = ["one", "two"];
      await as(operator, (admin) =>
        admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 }),
      );
      await as(operator, (admin) => admin.deleteAcls({ filters: [everything] }));
      await expectNoWrite(client, topic);
      expect(await client.topics(paula)).not.toContain(topic);
      const creations = [
        acl(topic, WRITE),
        acl(topic, READ),
        acl("*", READ, { resourceType: GROUP }),
      ];
      await as(operator, (admin) => admin.createAcls({ creations }));
      await client.produce(paula, topic, values);
      expect(await client.consume(paula, topic, values.length)).toEqual(values);
      expect(await client.topics(paula)).toContain(topic);
      const denial = [acl(topic, READ, { permissionType: DENY, principal: "User:*" })];
      await as(operator, (admin) => admin.createAcls({ creations: denial }));
      await expectNoRead(client, topic);
      await as(operator, (admin) => admin.deleteAcls({ filters: [everything] }));
      await expectNoWrite(client, topic);
    },
  );

  async function expectNoRead(client: (typeof clients)[number], topic: string): Promise<void> {
    const read = client.consume(paula, topic, 1);
    if (client.name.startsWith("Java")) expect(await read).toEqual([]);
    else expect(await failure(read)).toMatch(DENIED);
  }

  /** What is read later shows that nothing was written. */
  async function expectNoWrite(client: (typeof clients)[number], topic: string): Promise<void> {
    const written = client.produce(paula, topic, ["denied"]);
    // Kafka's console producer logs the error and ends as if nothing had happened.
    if (client.name.startsWith("Java")) await written;
    else expect(await failure(written)).toMatch(DENIED);
  }

  it("outlive a kill -9", async () => {
    await as(operator, (admin) => admin.deleteAcls({ filters: [everything] }));
    const creations = [acl("kept", READ)];
    await as(operator, (admin) => admin.createAcls({ creations }));
    await broker.kill();
    await broker.start();
    const found = await as(operator, (admin) => admin.describeAcls({ filter: everything }));
    expect(found.map(({ resourceName }) => resourceName)).toEqual(["kept"]);
    await as(operator, (admin) => admin.deleteAcls({ filters: [everything] }));
  });

  describe.skipIf(!hasJava)("beside Apache Kafka", () => {
    const kafka = new ApacheKafka();
    beforeAll(() => kafka.create());
    afterAll(() => kafka.remove());

    /** The same of both: Millrace first. */
    const both = <T>(use: (signIn: SignIn) => Promise<T>) =>
      Promise.all([use(operator), use({ ...operator, bootstrap: kafka.bootstrap("PLAINTEXT") })]);

    it("kafka-acls prints the same", async () => {
      const alice = ["--allow-principal", "User:alice", "--producer", "--topic", "orders"];
      const bob = ["--allow-principal", "User:bob", "--allow-host", "10.0.0.1", "--consumer"];
      const commands = [
        ["--add", ...alice],
        ["--add", ...bob, "--topic", "ord", "--group", "b", "--resource-pattern-type", "prefixed"],
        ["--add", "--deny-principal", "User:eve", "--operation", "All", "--topic", "*"],
        ["--add", "--allow-principal", "User:ops", "--operation", "Alter", "--cluster"],
        ["--list", "--topic", "orders", "--resource-pattern-type", "match"],
        ["--list", "--principal", "User:bob"],
        ["--remove", "--force", ...alice],
        ["--list"],
      ];
      for (const command of commands) {
        const [ours, theirs] = await both(({ bootstrap }) => kafkaAcls(bootstrap, command));
        expect(ours, command.join(" ")).toEqual(theirs);
        // A removal prints nothing.
        if (command[0] !== "--remove") expect(ours, command.join(" ")).not.toEqual([]);
      }
    });

    it("clients find the same ACLs, and the same are illegal", async () => {
      await both((signIn) => as(signIn, (admin) => admin.deleteAcls({ filters: [everything] })));
      const creations = [
        acl("orders", READ),
        acl("orders", READ),
        acl("ord", ALL, { resourcePatternType: PREFIXED, permissionType: DENY }),
        acl("*", DESCRIBE, { host: "10.0.0.1" }),
        acl("t", IDEMPOTENT_WRITE),
        acl("kafka-cluster", WRITE, { resourceType: CLUSTER }),
      ];
      await both((signIn) => as(signIn, (admin) => admin.createAcls({ creations })));
      const filters: AclFilter[] = [
        everything,
        { ...everything, resourceType: TOPIC, resourceName: "orders", resourcePatternType: MATCH },
        { ...everything, resourceName: "orders", resourcePatternType: LITERAL },
        { ...everything, principal: PRINCIPAL, operation: READ },
        { ...everything, host: "10.0.0.1" },
        { ...everything, permissionType: DENY },
      ];
      for (const filter of filters) {
        const found = await both((signIn) =>
          as(signIn, async (admin) => sorted((await admin.describeAcls({ filter })).flatMap(flat))),
        );
        expect(found[0], inspect(filter)).toEqual(found[1]);
        expect(found[0], inspect(filter)).not.toEqual([]);
      }
      const illegal = [
        acl("", READ),
        acl("other", READ, { resourceType: CLUSTER }),
        acl("t", AclOperations.ANY),
        acl("t", READ, { resourcePatternType: MATCH }),
        acl("t", READ, { principal: "alice" }),
      ];
      for (const creation of illegal) {
        const [ours, theirs] = await both((signIn) =>
          as(signIn, (admin) => errorsOf(admin.createAcls({ creations: [creation] }))),
        );
        // Kafka refuses some without an error of its own; it is still the request that is invalid.
        const named = theirs.map((code) => (code === UNKNOWN ? "INVALID_REQUEST" : code));
        expect(ours, inspect(creation)).toEqual(named);
        expect(ours, inspect(creation)).not.toEqual([]);
      }
    });

    const theirPaula = (): SignIn => ({
      ...paula,
      ...{ protocol: "SASL_PLAINTEXT", bootstrap: kafka.bootstrap("SASL_PLAINTEXT") },
    });
    const bothAsPaula = <T>(use: (signIn: SignIn) => Promise<T>) =>
      Promise.all([use(paula), use(theirPaula())]);

    it("kafka-delegation-tokens prints the same, and its tokens sign clients in", async () => {
      const [ours, theirs] = await bothAsPaula(delegationTokens);
      expect(ours).toEqual(theirs);
      expect(ours.created).not.toEqual([]);
      expect(ours.topics).toEqual([]);
    });

    it("a client without rights gets the same errors", async () => {
      const there = unique("there");
      await both((signIn) =>
        as(signIn, async (admin) => {
          await admin.deleteAcls({ filters: [everything] });
          await admin.createTopics({ topics: [there], partitions: 1, replicas: 1 });
        }),
      );
      const asked: [string, (admin: Admin, topic: string) => Promise<unknown>][] = [
        ["metadata", (admin, topic) => admin.metadata({ topics: [topic] })],
        ["create", (admin, topic) => admin.createTopics({ topics: [`${topic}-new`] })],
        ["delete", (admin, topic) => admin.deleteTopics({ topics: [topic] })],
        [
          "partitions",
          (admin, name) =>
            admin.createPartitions({ topics: [{ name, count: 3, assignments: [] }] }),
        ],
        [
          "configs",
          (admin, resourceName) =>
            admin.describeConfigs({
              resources: [{ resourceType: ConfigResourceTypes.TOPIC, resourceName }],
            } as Parameters<Admin["describeConfigs"]>[0]),
        ],
        ["groups", (admin) => admin.describeGroups({ groups: ["g"] })],
        ["delete groups", (admin) => admin.deleteGroups({ groups: ["g"] })],
        ["acls", (admin) => admin.describeAcls({ filter: everything })],
        ["create acls", (admin) => admin.createAcls({ creations: [acl("t", READ)] })],
        ["delete acls", (admin) => admin.deleteAcls({ filters: [everything] })],
      ];
      for (const [what, ask] of asked) {
        for (const topic of [there, "absent"]) {
          const [ours, theirs] = await Promise.all(
            [paula, theirPaula()].map((signIn) =>
              as(signIn, (admin) => errorsOf(ask(admin, topic))),
            ),
          );
          expect(ours, `${what} ${topic}`).toEqual(theirs);
          expect(ours, `${what} ${topic}`).not.toEqual([]);
        }
      }
      for (const topic of [there, "absent"]) {
        const [ours, theirs] = await Promise.all(
          [paula, theirPaula()].map((signIn) => errorsOf(write(signIn, topic))),
        );
        expect(ours, `write ${topic}`).toEqual(theirs);
        expect(ours, `write ${topic}`).not.toEqual([]);
      }
    });
  });
});

async function write(signIn: SignIn, topic: string): Promise<void> {
  const options = { ...platformaticOptions(signIn), serializers: stringSerializers };
  const producer = new Producer(options);
  try {
    await producer.send({ messages: [{ topic, value: "x", partition: 0 }] });
  } finally {
    await producer.close();
  }
}

/** Everything that an error says. @throws Error where there is none. */
async function failure(asked: Promise<unknown>): Promise<string> {
  const outcome = await asked.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (outcome === undefined) throw new Error("it is allowed");
  return inspect(outcome, { depth: 8 });
}

/** The names of Kafka's errors in an error, each once; none where nothing fails. */
async function errorsOf(asked: Promise<unknown>): Promise<string[]> {
  const outcome = await asked.then(
    () => undefined,
    (error: unknown) => error,
  );
  const named = inspect(outcome, { depth: 8 }).matchAll(/apiId: '(\w+)'/g);
  return sorted([...new Set([...named].map(([, name]) => String(name)))]);
}

interface Found {
  resourceName: string;
  acls: object[];
}

function flat({ acls, ...resource }: Found): object[] {
  return acls.map((one) => ({ ...resource, ...one }));
}

/** In an order that does not depend on the broker's. */
function sorted<T>(list: T[]): T[] {
  return list.toSorted((a, b) => (inspect(a) < inspect(b) ? -1 : 1));
}

async function kafkaAcls(bootstrap: string, command: string[]): Promise<string[]> {
  const printed: string[] = [];
  const args = ["--bootstrap-server", bootstrap, ...command];
  await kafkaTool("AclCommand", args, { onLine: (line) => printed.push(line.trim()) });
  return sorted(printed.filter((line) => line !== ""));
}
