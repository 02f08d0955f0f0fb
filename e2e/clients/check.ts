/**
 * `npm run check:clients`: stock clients, old and new, write and read over TLS by each mechanism that they support,
 * against a broker that this starts. Prints a table; ends with 1 where an exchange fails.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Admin } from "@platformatic/kafka";
import {
  kafkajs,
  librdkafka,
  type Mechanism,
  platformatic,
  platformaticOptions,
  type SignIn,
  type SigningClient,
} from "../kafka/clients/signed-in.ts";
import { PLAIN_USER, ProtectedBroker } from "../kafka/protected-broker.ts";
import { assertInstallable, createScramUser, type Exchanger, installClients } from "./programs.ts";

const WAYS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate"] as const;
type Way = (typeof WAYS)[number];

const SCRAM_USER = { username: "alice", password: "her password" };
const VALUES = ["one", "two", "three"];
/** A client that is older or slower than the others still has done by then. */
const EXCHANGE_MS_MAX = 90_000;
const EXCHANGES_AT_ONCE_MAX = 3;

interface Client extends Exchanger {
  /** Ways that the client does not have, each with the reason. */
  lacks: Partial<Record<Way, string>>;
}

const broker = new ProtectedBroker();
const failures: string[] = [];
const results = new Map<string, string>();

const clients = await findClients();
try {
  await broker.create();
  await createScramUser({ ...signIn("SCRAM-SHA-512"), protocol: "PLAINTEXT", ...plaintext() });
  const tasks = clients.flatMap((client) => WAYS.map((way) => () => check(client, way)));
  const workers = Array.from({ length: EXCHANGES_AT_ONCE_MAX }, async () => {
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) await task();
  });
  await Promise.all(workers);
} finally {
  await broker.remove();
}
printTable();
for (const failure of failures) console.error(`\n${failure}`);
process.exitCode = failures.length > 0 ? 1 : 0;

async function findClients(): Promise<Client[]> {
  assertInstallable();
  const programs = (await installClients()).map((client) => ({ ...client, lacks: {} }));
  const kcat = execFileSync(process.env.MILLRACE_KCAT || "kcat", ["-V"], { encoding: "utf8" });
  const version = /librdkafka ([\d.]+)/.exec(kcat)?.[1];
  const tokens = { OAUTHBEARER: "takes no token from a file" };
  return [
    ...programs,
    stock(`librdkafka ${version} (kcat)`, librdkafka, tokens),
    stock(pinned("kafkajs"), kafkajs),
    stock(pinned("@platformatic/kafka"), platformatic),
  ];
}

function stock(name: string, client: SigningClient, lacks: Client["lacks"] = {}): Client {
  return {
    name,
    lacks,
    exchange: async (signIn, topic, values) => {
      await client.produce(signIn, topic, values);
      return client.consume(signIn, topic, values.length);
    },
  };
}

/** The version to which the package is pinned. */
function pinned(name: string): string {
  const manifest = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"));
  return `${name} ${manifest.dependencies[name]}`;
}

async function check(client: Client, way: Way): Promise<void> {
  const key = `${client.name} ${way}`;
  if (client.lacks[way] !== undefined) {
    results.set(key, "–");
    return;
  }
  const topic = key.replaceAll(/[^\w.-]+/g, "-");
  try {
    await createTopic(topic);
    const read = await within(EXCHANGE_MS_MAX, client.exchange(signIn(way), topic, VALUES));
    if (read.join() !== VALUES.join()) throw new Error(`read ${JSON.stringify(read)}`);
    results.set(key, "ok");
  } catch (error) {
    failures.push(`${client.name} by ${way}: ${error instanceof Error ? error.message : error}`);
    results.set(key, "FAILED");
  }
  console.log(`${results.get(key)}  ${client.name} by ${way}`);
}

function signIn(way: Way): SignIn {
  if (way === "certificate") {
    const identity = { identityFile: broker.identityFile, mechanism: "PLAIN" as Mechanism };
    return { ...where("SSL"), ...identity, username: "", password: "" };
  }
  const token = () => ({ username: "tom", password: broker.token("tom") });
  const scram = way === "PLAIN" ? PLAIN_USER : SCRAM_USER;
  return {
    ...where("SASL_SSL"),
    mechanism: way,
    ...(way === "OAUTHBEARER" ? token() : scram),
  };
}

function where(listener: "SSL" | "SASL_SSL") {
  return { bootstrap: broker.bootstrap(listener), protocol: listener, caFile: broker.caFile };
}

function plaintext(): { bootstrap: string } {
  return { bootstrap: broker.bootstrap("PLAINTEXT") };
}

async function createTopic(topic: string): Promise<void> {
  const asAdmin: SignIn = { ...signIn("PLAIN"), protocol: "PLAINTEXT", ...plaintext() };
  const admin = new Admin(platformaticOptions(asAdmin));
  try {
    await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 });
  } finally {
    await admin.close();
  }
}

async function within<T>(msMax: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${msMax} ms`)), msMax);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function printTable(): void {
  console.log(`\n| Client | ${WAYS.join(" | ")} |`);
  console.log(`|---|${WAYS.map(() => "---|").join("")}`);
  for (const { name } of clients) {
    const row = WAYS.map((way) => results.get(`${name} ${way}`));
    console.log(`| ${name} | ${row.join(" | ")} |`);
  }
  for (const { name, lacks } of clients) {
    for (const [way, reason] of Object.entries(lacks)) {
      console.log(`\n${name} by ${way}: ${reason}`);
    }
  }
}
