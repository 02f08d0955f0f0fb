/** Stock clients that encrypt and authenticate, each by its own settings. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import {
  Admin,
  Consumer,
  Producer,
  stringDeserializers,
  stringSerializers,
} from "@platformatic/kafka";
import { Kafka, logLevel, type SASLOptions } from "kafkajs";
import { runLines } from "./client.ts";
import { kafkaTool } from "./java.ts";

export type Mechanism = "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512" | "OAUTHBEARER";

/** Where a client connects, what it speaks there, and who it is. */
export interface SignIn {
  bootstrap: string;
  protocol: "PLAINTEXT" | "SSL" | "SASL_PLAINTEXT" | "SASL_SSL";
  /** The PEM file with the root that the client trusts; Java's settings are written beside it. */
  caFile: string;
  mechanism: Mechanism;
  username: string;
  /** With OAUTHBEARER, the token. */
  password: string;
  /** The PEM file with the client's own certificate and its key. */
  identityFile?: string;
  /** The user name is the id of a delegation token, the password its HMAC. */
  isToken?: boolean;
}

export interface SigningClient {
  name: string;
  /** Writes the values to a topic, acknowledged by all. */
  produce(signIn: SignIn, topic: string, values: string[]): Promise<void>;
  /** Reads `count` values from the beginning. */
  consume(signIn: SignIn, topic: string, count: number): Promise<string[]>;
  /** The cheapest request there is; fails at once where the broker does not let the client in. */
  topics(signIn: SignIn): Promise<string[]>;
}

const CONNECT_MS_MAX = 5_000;
/** What a JVM needs for TLS and authentication on a busy machine. */
const CALL_MS_MAX = 10_000;
const IDLE_MS_MAX = 30_000;

const usesTls = ({ protocol }: SignIn) => protocol.endsWith("SSL");
const usesSasl = ({ protocol }: SignIn) => protocol.startsWith("SASL");

const kcat = process.env.MILLRACE_KCAT || "kcat";

/** What kcat is told about its broker; librdkafka complains of settings that its protocol has no use for. */
function kcatArguments(signIn: SignIn): string[] {
  const settings = [`security.protocol=${signIn.protocol}`];
  if (usesTls(signIn)) settings.push(`ssl.ca.location=${signIn.caFile}`);
  if (signIn.identityFile) {
    settings.push(`ssl.certificate.location=${signIn.identityFile}`);
    settings.push(`ssl.key.location=${signIn.identityFile}`);
  }
  if (usesSasl(signIn)) {
    settings.push(`sasl.mechanisms=${signIn.mechanism}`);
    settings.push(`sasl.username=${signIn.username}`, `sasl.password=${signIn.password}`);
  }
  return ["-b", signIn.bootstrap, ...settings.flatMap((one) => ["-X", one])];
}

export const librdkafka: SigningClient = {
  name: "librdkafka (kcat)",

  async produce(signIn, topic, values) {
    const args = ["-P", "-t", topic, "-X", "acks=all", "-X", `message.timeout.ms=${IDLE_MS_MAX}`];
    await runLines(kcat, [...args, ...kcatArguments(signIn)], { input: lines(values) });
  },

  async consume(signIn, topic, count) {
    const args = ["-C", "-t", topic, "-o", "beginning", "-c", String(count), "-e", "-q"];
    return output((onLine) => runLines(kcat, [...args, ...kcatArguments(signIn)], { onLine }));
  },

  async topics(signIn) {
    const seconds = String(CONNECT_MS_MAX / 1_000);
    const args = ["-L", "-m", seconds, ...kcatArguments(signIn)];
    const listed = await output((onLine) => runLines(kcat, args, { onLine }));
    return listed.flatMap((line) => /^ {2}topic "(.+)" with/.exec(line)?.[1] ?? []);
  },
};

/** Writes a properties file for one of Kafka's tools. */
export function javaConfig(signIn: SignIn, ...further: string[]): string {
  const file = join(dirname(signIn.caFile), `client-${randomUUID()}.properties`);
  const scram = signIn.mechanism.startsWith("SCRAM");
  const login = scram ? "scram.ScramLoginModule" : "plain.PlainLoginModule";
  const token = signIn.isToken ? ' tokenauth="true"' : "";
  const user = `username="${signIn.username}" password="${signIn.password}"${token}`;
  const settings = [
    `security.protocol=${signIn.protocol}`,
    "ssl.truststore.type=PEM",
    `ssl.truststore.location=${signIn.caFile}`,
    `sasl.mechanism=${signIn.mechanism}`,
    `sasl.jaas.config=org.apache.kafka.common.security.${login} required ${user};`,
    ...(signIn.identityFile
      ? ["ssl.keystore.type=PEM", `ssl.keystore.location=${signIn.identityFile}`]
      : []),
    ...further,
    "",
  ];
  writeFileSync(file, settings.join("\n"), { mode: 0o600 });
  return file;
}

export const java: SigningClient = {
  name: "Java console tools",

  async produce(signIn, topic, values) {
    const to = ["--bootstrap-server", signIn.bootstrap, "--topic", topic];
    const config = ["--producer.config", javaConfig(signIn), "--request-required-acks", "all"];
    await kafkaTool("ConsoleProducer", [...to, ...config], { input: lines(values) });
  },

  async consume(signIn, topic, count) {
    const from = ["--bootstrap-server", signIn.bootstrap, "--topic", topic, "--from-beginning"];
    const until = ["--max-messages", String(count), "--timeout-ms", String(IDLE_MS_MAX)];
    const args = [...from, ...until, "--consumer.config", javaConfig(signIn)];
    return output((onLine) => kafkaTool("consumer.ConsoleConsumer", args, { onLine }));
  },

  async topics(signIn) {
    // A connection that ends without a reason is no error to it: it tries again until its time is up.
    const times = [`default.api.timeout.ms=${CALL_MS_MAX}`, `request.timeout.ms=${CALL_MS_MAX}`];
    const config = javaConfig(signIn, ...times);
    const args = ["--bootstrap-server", signIn.bootstrap, "--command-config", config];
    // The tool prints its error where it prints the topics.
    return output((onLine) => kafkaTool("TopicCommand", [...args, "--list"], { onLine }));
  },
};

/** What Node's TLS is told. */
function nodeTls({ caFile, identityFile }: SignIn) {
  const identity = identityFile && readFileSync(identityFile, "utf8");
  const ca = [readFileSync(caFile, "utf8")];
  return identity ? { ca, cert: identity, key: identity } : { ca };
}

function kafkaJs(signIn: SignIn): Kafka {
  const { mechanism, username, password } = signIn;
  const sasl: SASLOptions =
    mechanism === "OAUTHBEARER"
      ? { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: password }) }
      : ({ mechanism: mechanism.toLowerCase(), username, password } as SASLOptions);
  return new Kafka({
    clientId: "e2e",
    brokers: [signIn.bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { retries: 0 },
    connectionTimeout: CONNECT_MS_MAX,
    requestTimeout: IDLE_MS_MAX,
    ...(usesTls(signIn) ? { ssl: nodeTls(signIn) } : {}),
    ...(usesSasl(signIn) ? { sasl } : {}),
  });
}

export const kafkajs: SigningClient = {
  name: "kafkajs",

  async produce(signIn, topic, values) {
    const producer = kafkaJs(signIn).producer();
    await producer.connect();
    try {
      await producer.send({ topic, acks: -1, messages: values.map((value) => ({ value })) });
    } finally {
      await producer.disconnect();
    }
  },

  async consume(signIn, topic, count) {
    const consumer = kafkaJs(signIn).consumer({ groupId: `e2e-${randomUUID()}` });
    const seen: string[] = [];
    await consumer.connect();
    try {
      await consumer.subscribe({ topic, fromBeginning: true });
      await new Promise<void>((resolve, reject) => {
        const idle = setTimeout(() => reject(new Error("no record for too long")), IDLE_MS_MAX);
        consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
        const eachMessage = async ({ message }: { message: { value: Buffer | null } }) => {
          idle.refresh();
          seen.push(message.value?.toString() ?? "");
          if (seen.length < count) return;
          clearTimeout(idle);
          resolve();
        };
        consumer.run({ eachMessage }).catch(reject);
      });
    } finally {
      await consumer.disconnect();
    }
    return seen;
  },

  async topics(signIn) {
    const admin = kafkaJs(signIn).admin();
    try {
      await admin.connect();
      return await admin.listTopics();
    } finally {
      await admin.disconnect();
    }
  },
};

/** What every client of @platformatic/kafka is told. */
export function platformaticOptions(signIn: SignIn) {
  const { mechanism, username, password } = signIn;
  const sasl =
    mechanism === "OAUTHBEARER"
      ? { mechanism, token: password }
      : { mechanism, username, password };
  return {
    clientId: "e2e",
    bootstrapBrokers: [signIn.bootstrap],
    retries: 0,
    connectTimeout: CONNECT_MS_MAX,
    ...(usesTls(signIn) ? { tls: nodeTls(signIn) } : {}),
    ...(usesSasl(signIn) ? { sasl } : {}),
  };
}

export const platformatic: SigningClient = {
  name: "Node.js (@platformatic/kafka)",

  async produce(signIn, topic, values) {
    const options = { ...platformaticOptions(signIn), serializers: stringSerializers };
    const producer = new Producer(options);
    try {
      await producer.send({ acks: -1, messages: values.map((value) => ({ topic, value })) });
    } finally {
      await producer.close();
    }
  },

  async consume(signIn, topic, count) {
    const options = { ...platformaticOptions(signIn), groupId: `e2e-${randomUUID()}` };
    const consumer = new Consumer({ ...options, deserializers: stringDeserializers });
    const seen: string[] = [];
    try {
      const stream = await consumer.consume({ topics: [topic], mode: "earliest" });
      const idle = setTimeout(() => stream.destroy(new Error("no record")), IDLE_MS_MAX);
      stream.on("data", ({ value }) => {
        idle.refresh();
        if (seen.push(value ?? "") === count) stream.emit("enough");
      });
      await once(stream, "enough");
      clearTimeout(idle);
      await stream.close();
    } finally {
      await consumer.close(true);
    }
    return seen;
  },

  async topics(signIn) {
    const admin = new Admin(platformaticOptions(signIn));
    try {
      return await admin.listTopics();
    } finally {
      await admin.close();
    }
  },
};

function lines(values: string[]): Readable {
  return Readable.from([values.map((value) => `${value}\n`).join("")]);
}

/** What a program prints, line by line. @throws Error with that and its complaint where it fails. */
async function output(run: (onLine: (line: string) => void) => Promise<void>): Promise<string[]> {
  const printed: string[] = [];
  try {
    await run((line) => printed.push(line));
  } catch (error) {
    throw new Error(printed.join("\n"), { cause: error });
  }
  return printed;
}
