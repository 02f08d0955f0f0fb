/** Stock clients encrypt and authenticate, by every mechanism; who may not connect gets an error of the client's own. */
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { Admin, Producer, stringSerializers } from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { unique } from "../product.ts";
import { kafkaTool } from "./clients/java.ts";
import {
  java,
  kafkajs,
  librdkafka,
  type Mechanism,
  platformatic,
  platformaticOptions,
  type SignIn,
  type SigningClient,
} from "./clients/signed-in.ts";
import { type Listener, PLAIN_USER, ProtectedBroker } from "./protected-broker.ts";

const hasJava = Boolean(process.env.MILLRACE_KAFKA_JARS);
/** The tool that creates users is Java's. */
const mechanisms: Mechanism[] = hasJava ? ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] : ["PLAIN"];
const clients = [
  process.env.MILLRACE_KCAT === "" ? undefined : librdkafka,
  hasJava ? java : undefined,
  kafkajs,
  platformatic,
].filter((client) => client !== undefined);

const SCRAM_USER = { username: "alice", password: "her password" };
/** A client that is refused says so by then: 10 seconds, and what a JVM needs to start beside others. */
const REFUSED_MS_MAX = 60_000;
const BYSTANDER_PAUSE_MS = 50;
const AUTHENTICATION_FAILED = /authentication fail|authentication error/i;

describe.skipIf(process.env.MILLRACE_OPENSSL === "")("protected listeners", () => {
  const broker = new ProtectedBroker();

  const signIn = (listener: Listener, mechanism: Mechanism, other?: Partial<SignIn>): SignIn => ({
    bootstrap: broker.bootstrap(listener),
    protocol: listener,
    caFile: broker.caFile,
    mechanism,
    ...(mechanism === "PLAIN" ? PLAIN_USER : SCRAM_USER),
    ...other,
  });

  const users = (name: string, ...change: string[]) =>
    kafkaTool("kafka.admin.ConfigCommand", [
      ...["--bootstrap-server", broker.bootstrap("PLAINTEXT"), "--alter"],
      ...["--entity-type", "users", "--entity-name", name, ...change],
    ]);

  /** A new topic whose name begins with `prefix`, in characters that a topic may have. */
  async function newTopic(prefix: string): Promise<string> {
    const topic = unique(prefix.replace(/[^\w-]/g, "-"));
    const admin = new Admin(platformaticOptions(signIn("PLAINTEXT", "PLAIN")));
    await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 });
    await admin.close();
    return topic;
  }

  beforeAll(async () => {
    await broker.create();
    if (!hasJava) return;
    const password = `password=${SCRAM_USER.password}`;
    const both = `SCRAM-SHA-256=[iterations=8192,${password}],SCRAM-SHA-512=[${password}]`;
    await users(SCRAM_USER.username, "--add-config", both);
  });
  afterAll(() => broker.remove());

  const cases = [
    ...clients.flatMap((client) => mechanisms.map((one) => [client, one, "SASL_SSL"] as const)),
    ...(hasJava
      ? clients.map((client) => [client, "SCRAM-SHA-512", "SASL_PLAINTEXT"] as const)
      : []),
  ].map(([client, ...rest]) => [client.name, ...rest, client] as const);
  it.concurrent.for(cases)(
    "%s writes and reads by %s over %s",
    async ([name, mechanism, listener, client]) => {
      const topic = await newTopic(`${name}-${mechanism}-${listener}`);
      const values = ["one", "two", "three"];
      await client.produce(signIn(listener, mechanism), topic, values);
      expect(await client.consume(signIn(listener, mechanism), topic, 3)).toEqual(values);
    },
  );

  it.concurrent.for(clients.map((client) => [client.name, client] as const))(
    "%s writes and reads as the owner of a certificate",
    async ([name, client]) => {
      const topic = await newTopic(`${name}-certificate`);
      const owner = signIn("SSL", "PLAIN", { identityFile: broker.identityFile });
      await client.produce(owner, topic, ["one", "two"]);
      expect(await client.consume(owner, topic, 2)).toEqual(["one", "two"]);
    },
  );

  it.concurrent.for([kafkajs, platformatic].map((client) => [client.name, client] as const))(
    "%s writes and reads by a token",
    async ([name, client]) => {
      const topic = await newTopic(`${name}-token`);
      const bearer = signIn("SASL_SSL", "OAUTHBEARER", { password: broker.token("tom") });
      await client.produce(bearer, topic, ["one", "two"]);
      expect(await client.consume(bearer, topic, 2)).toEqual(["one", "two"]);
      for (const password of [
        broker.token("tom", -60),
        `${broker.token("tom").slice(0, -8)}AAAAAAAA`,
      ]) {
        // Not every client reads what the broker says; each gets an error.
        await refusal(client, { ...bearer, password });
      }
    },
  );

  describe("who may not connect", () => {
    let topic: string;
    const offsets: bigint[] = [];
    let disconnected = 0;
    let bystander: Producer<string, string, string, string>;

    beforeAll(async () => {
      topic = await newTopic("bystander");
      const options = platformaticOptions(signIn("SASL_SSL", "PLAIN"));
      bystander = new Producer({ ...options, serializers: stringSerializers });
      bystander.on("client:broker:disconnect", () => {
        disconnected += 1;
      });
      await write();
    });
    afterAll(() => bystander?.close());

    async function write(): Promise<void> {
      const sent = await bystander.send({ messages: [{ topic, value: "on", partition: 0 }] });
      offsets.push(sent.offsets?.[0]?.offset ?? -1n);
    }

    /** Every client is refused everything, with the errors beside. A client that was connected before goes on meanwhile. */
    async function expectRefusals(asked: [SignIn, RegExp?][]): Promise<void> {
      let ended = false;
      disconnected = 0;
      offsets.length = 0;
      const refusals = clients.flatMap((client) =>
        asked.map(async ([one, error]) => {
          const text = await refusal(client, one);
          if (error !== undefined) expect(text).toMatch(error);
        }),
      );
      const refused = Promise.all(refusals).finally(() => {
        ended = true;
      });
      const written = (async () => {
        while (!ended) {
          await write();
          await sleep(BYSTANDER_PAUSE_MS);
        }
        await write();
      })();
      // A second try does not begin while this one still writes.
      await Promise.allSettled([refused, written]);
      await Promise.all([refused, written]);
      const [first = 0n] = offsets;
      expect(offsets).toEqual(offsets.map((_, n) => first + BigInt(n)));
      expect(disconnected, "disconnections of another client").toBe(0);
    }

    it("gets an error for a wrong password, user or mechanism", async () => {
      await expectRefusals([
        ...mechanisms.flatMap((mechanism): [SignIn, RegExp][] => [
          [signIn("SASL_SSL", mechanism, { password: "wrong" }), AUTHENTICATION_FAILED],
          [signIn("SASL_SSL", mechanism, { username: "mallory" }), AUTHENTICATION_FAILED],
        ]),
        [signIn("SASL_PLAINTEXT", "PLAIN"), /mechanism/i],
      ]);
    });

    it("gets an error without authentication, and for the wrong one of TLS and plaintext", async () => {
      // The broker can only close the connection: each client has a text of its own for that.
      await expectRefusals([
        [signIn("SASL_SSL", "PLAIN", { protocol: "SSL" })],
        [signIn("SSL", "PLAIN")],
        [signIn("SSL", "PLAIN", { identityFile: broker.foreignIdentityFile })],
        [signIn("SASL_SSL", "PLAIN", { protocol: "SASL_PLAINTEXT" })],
        [signIn("SASL_PLAINTEXT", "SCRAM-SHA-512", { protocol: "SASL_SSL" })],
      ]);
    });
  });

  it.skipIf(!hasJava)(
    "users outlive a kill -9, and whom kafka-configs removes is refused",
    async () => {
      await users("bob", "--add-config", "SCRAM-SHA-512=[password=bob's]");
      await broker.kill();
      await broker.start();
      const bob = signIn("SASL_SSL", "SCRAM-SHA-512", { username: "bob", password: "bob's" });
      const alice = signIn("SASL_SSL", "SCRAM-SHA-256");
      await platformatic.topics(bob);
      await platformatic.topics(alice);
      await users("bob", "--delete-config", "SCRAM-SHA-512");
      const errors = await Promise.all(clients.map((client) => refusal(client, bob)));
      for (const error of errors) expect(error).toMatch(AUTHENTICATION_FAILED);
      await platformatic.topics(alice);
    },
  );
});

/** The error that the client gives its user. @throws Error where it connects, or waits for too long. */
async function refusal(client: SigningClient, signIn: SignIn): Promise<string> {
  const asked = `${client.name}, ${signIn.mechanism} over ${signIn.protocol} as ${signIn.username}`;
  const outcome = await Promise.race([
    client.topics(signIn).then(
      () => "connected",
      (error) => new Error(asked, { cause: error }),
    ),
    sleep(REFUSED_MS_MAX, "has no answer"),
  ]);
  if (typeof outcome === "string") throw new Error(`${asked}: ${outcome}`);
  return inspect(outcome, { depth: 8 });
}
