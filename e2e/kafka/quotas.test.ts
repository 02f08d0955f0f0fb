/** Client quotas: Kafka's own tool and clients set, see and are refused what they are at Apache Kafka. */
import { Admin, type ClientQuotaMatchTypes } from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApacheKafka } from "./apache-kafka.ts";
import { kafkaTool } from "./clients/java.ts";
import { ProtectedBroker } from "./protected-broker.ts";

const hasTools = Boolean(process.env.MILLRACE_KAFKA_JARS) && process.env.MILLRACE_OPENSSL !== "";

type Alteration = Parameters<Admin["alterClientQuotas"]>[0]["entries"][number];
type Filter = Parameters<Admin["describeClientQuotas"]>[0];
const EXACT: typeof ClientQuotaMatchTypes.EXACT = 0;
const DEFAULT: typeof ClientQuotaMatchTypes.DEFAULT = 1;
const ANY: typeof ClientQuotaMatchTypes.ANY = 2;

const alice = ["--entity-type", "users", "--entity-name", "alice"];
const app = ["--entity-type", "clients", "--entity-name", "app"];
const anyUser = ["--entity-type", "users", "--entity-default"];
const anyClient = ["--entity-type", "clients", "--entity-default"];
const address = ["--entity-type", "ips", "--entity-name", "10.1.2.3"];

describe.skipIf(!hasTools)("client quotas", () => {
  const broker = new ProtectedBroker();
  const kafka = new ApacheKafka();

  beforeAll(() => Promise.all([broker.create(), kafka.create()]));
  afterAll(() => Promise.all([broker.remove(), kafka.remove()]));

  /** The same of both: Millrace first. */
  const both = <T>(use: (bootstrap: string) => Promise<T>) =>
    Promise.all([broker, kafka].map((one) => use(one.bootstrap("PLAINTEXT"))));

  it("kafka-configs prints the same, also after a kill -9", async () => {
    const commands = [
      ["--alter", ...alice, "--add-config", "producer_byte_rate=1024,request_percentage=50.5"],
      ["--alter", ...alice, ...app, "--add-config", "consumer_byte_rate=2048"],
      ["--alter", ...anyUser, "--add-config", "controller_mutation_rate=2.5"],
      ["--alter", ...anyClient, "--add-config", "producer_byte_rate=4096"],
      ["--alter", ...address, "--add-config", "connection_creation_rate=7"],
      ["--describe", "--entity-type", "users"],
      ["--describe", ...alice, ...app],
      ["--describe", "--entity-type", "clients"],
      ["--describe", "--entity-type", "ips"],
      ["--alter", ...alice, "--delete-config", "request_percentage"],
    ];
    for (const command of commands) {
      const [ours, theirs] = await both((bootstrap) => configs(bootstrap, command));
      expect(ours, command.join(" ")).toEqual(theirs);
      expect(ours, command.join(" ")).not.toEqual([]);
    }
    await broker.kill();
    await broker.start();
    const [ours, theirs] = await both((bootstrap) => configs(bootstrap, ["--describe", ...alice]));
    expect(ours).toEqual(theirs);
    expect(ours).toEqual([
      "Quota configs for user-principal 'alice' are producer_byte_rate=1024.0",
    ]);
  });

  it("clients find the same entities by each kind of filter", async () => {
    const op = (value: number) => ({ key: "producer_byte_rate", value, remove: false }) as const;
    const entries: Alteration[] = [
      { entities: [{ entityType: "user", entityName: "u" }], ops: [op(1)] },
      { entities: [{ entityType: "user", entityName: null }], ops: [op(2)] },
      { entities: [{ entityType: "client-id", entityName: "c" }], ops: [op(3)] },
      { entities: [{ entityType: "client-id", entityName: null }], ops: [op(4)] },
      {
        entities: [
          { entityType: "user", entityName: "u" },
          { entityType: "client-id", entityName: null },
        ],
        ops: [op(5)],
      },
    ];
    await both((bootstrap) => as(bootstrap, (admin) => admin.alterClientQuotas({ entries })));
    const user = { entityType: "user" } as const;
    const client = { entityType: "client-id" } as const;
    const filters: Filter[] = [
      { components: [{ ...user, matchType: EXACT, match: "u" }] },
      { components: [{ ...user, matchType: EXACT, match: "u" }], strict: true },
      { components: [{ ...user, matchType: DEFAULT }] },
      { components: [{ ...user, matchType: ANY }], strict: true },
      { components: [{ ...client, matchType: ANY }] },
      {
        components: [
          { ...user, matchType: ANY },
          { ...client, matchType: DEFAULT },
        ],
        strict: true,
      },
    ];
    for (const filter of filters) {
      const [ours, theirs] = await both((bootstrap) =>
        as(bootstrap, async (admin) => flat(await admin.describeClientQuotas(filter))),
      );
      expect(ours, JSON.stringify(filter)).toEqual(theirs);
      expect(ours, JSON.stringify(filter)).not.toEqual([]);
    }
  });

  it("the same is refused, with the same text", async () => {
    const refused = [
      [...alice, "--add-config", "producer_byte_rate=0"],
      [...alice, "--add-config", "consumer_byte_rate=1.5"],
      [...address, "--add-config", "connection_creation_rate=3000000000"],
    ];
    for (const change of refused) {
      const [ours, theirs] = await both((bootstrap) => refusal(bootstrap, ["--alter", ...change]));
      expect(ours, change.join(" ")).toEqual(theirs);
    }
  });
});

/** What kafka-configs says, in an order that does not depend on the broker's. */
async function configs(bootstrap: string, command: string[]): Promise<string[]> {
  const printed: string[] = [];
  const args = ["--bootstrap-server", bootstrap, ...command];
  const onLine = (line: string) => printed.push(line);
  await kafkaTool("kafka.admin.ConfigCommand", args, { onLine });
  const said = printed.filter((line) => /^(Quota configs|Completed)/.test(line));
  return said.map(withSortedQuotas).sort();
}

function withSortedQuotas(line: string): string {
  const [entity, quotas] = line.split(" are ");
  return quotas ? `${entity} are ${quotas.split(", ").sort().join(", ")}` : line;
}

/** Why kafka-configs failed. @throws Error where it did not. */
async function refusal(bootstrap: string, command: string[]): Promise<string> {
  const outcome = await configs(bootstrap, command).then(String, (error: Error) => error);
  if (typeof outcome === "string") throw new Error(`it was accepted: ${outcome}`);
  const reason = /InvalidRequestException: (.*)/.exec(outcome.message)?.[1];
  if (reason === undefined) throw outcome;
  return reason;
}

async function as<T>(bootstrap: string, use: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = new Admin({ clientId: "e2e", bootstrapBrokers: [bootstrap], retries: 0 });
  try {
    return await use(admin);
  } finally {
    await admin.close();
  }
}

type Described = Awaited<ReturnType<Admin["describeClientQuotas"]>>;

/** Entities with their quotas, in an order that does not depend on the broker's. */
function flat(found: Described): string[] {
  const one = ({ entity, values }: Described[number]) => {
    const parts = entity.map(({ entityType, entityName }) => `${entityType}=${entityName}`);
    const quotas = values.map(({ key, value }) => `${key}:${value}`);
    return [...parts.sort(), ...quotas.sort()].join(" ");
  };
  return found.map(one).sort();
}
