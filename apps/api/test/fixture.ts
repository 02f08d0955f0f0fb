import { createIdentity, newApiKeySecret } from "@millrace/auth";
import { BrokerError, type BrokerSettings, type CatchUpAnswer } from "@millrace/broker-admin";
import type { Contract } from "@millrace/contract";
import {
  type BootstrapAnswer,
  type BrokerHttpAccess,
  bootstrapTenant,
  type KafkaAccess,
} from "@millrace/core";
import { type Database, openDatabase } from "@millrace/db";
import {
  bootstrapServers,
  type Cluster,
  type ConsumerGroup,
  type Environment,
  type Operation,
  type Organization,
  type Role,
  systemClock,
  type Topic,
  TUNING_KNOBS,
  TUNING_PROPERTIES,
  tuningDefaults,
} from "@millrace/domain";
import { type TestDatabase, withPostgres } from "@millrace/testkit";
import type { Hono } from "hono";
import { pino } from "pino";
import { afterAll, beforeAll } from "vitest";
import { createApi } from "../src/create-api.ts";
import type { ApiEnv } from "../src/request-context.ts";

export const API_URL = "http://localhost:4000";
export const CONSOLE_URL = "http://localhost:3000";
const SECRET = "a secret of the tests, long enough";

export interface Tenant extends BootstrapAnswer {
  readonly organization: Organization;
  readonly environment: Environment;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are asserted on, field by field.
  readonly body: any;
}

export interface ApiFixture {
  app: Hono<ApiEnv>;
  db: Database;
  kafka: FakeKafka;
  /** Two tenants that must never see each other's things. */
  ours: Tenant;
  theirs: Tenant;
}

/** One API over one database for a test file; read its parts inside tests only. */
export function apiFixture(options: { rateLimit?: boolean } = {}): ApiFixture {
  const fixture = {} as ApiFixture;
  let database: TestDatabase;
  beforeAll(async () => {
    database = await withPostgres();
    const db = openDatabase({ url: database.url });
    fixture.db = db;
    fixture.kafka = new FakeKafka();
    fixture.app = createApi({
      db,
      secret: SECRET,
      apiUrl: API_URL,
      consoleUrl: CONSOLE_URL,
      log: pino({ level: "silent" }),
      kafka: fixture.kafka.access,
      brokerHttp: fixture.kafka.http,
      rateLimit: options.rateLimit ?? false,
    });
    fixture.ours = await newTenant(db, "ours");
    fixture.theirs = await newTenant(db, "theirs");
  });
  afterAll(async () => {
    await fixture.db?.close();
    await database?.drop();
  });
  return fixture;
}

async function newTenant(db: Database, name: string): Promise<Tenant> {
  const identity = createIdentity({ db, secret: SECRET, apiUrl: API_URL, trustedOrigins: [] });
  const answer = await bootstrapTenant(
    { db, clock: systemClock, identity },
    {
      email: `${name}@example.com`,
      userName: name,
      organization: { name, slug: name },
      environment: "default",
    },
  );
  const organization = await db.organizations.findBySlug(name);
  const [environment] = (await db.organizations.environments(organization!.id, { limit: 1 })).items;
  return { ...answer, organization: organization!, environment: environment! };
}

/** A key of another role than the tenant's own. */
export async function keyOfRole(db: Database, tenant: Tenant, role: Role): Promise<string> {
  const { secret, hash, hint } = newApiKeySecret();
  const { id: organizationId } = tenant.organization;
  await db.apiKeys.create({ organizationId, name: role, role, hint, secretHash: hash });
  return secret;
}

let ports = 20_000;

/** A cluster that serves clients, without a worker having made it. */
export async function runningCluster(
  db: Database,
  tenant: Tenant,
  name: string,
): Promise<{ cluster: Cluster; operation: Operation }> {
  const organizationId = tenant.organization.id;
  const { id } = await db.clusters.create({
    organizationId,
    environmentId: tenant.environment.id,
    name,
    region: "local",
    size: "dev",
    labels: {},
    conditions: [],
  });
  const { id: operationId } = await db.operations.create({
    organizationId,
    clusterId: id,
    kind: "cluster.create",
  });
  ports += 2;
  await db.clusters.recordPlacement(id, {
    host: "127.0.0.1",
    kafkaPort: ports,
    adminPort: ports + 1,
  });
  await db.journal.claim(operationId, "test", 60_000);
  const cluster = await db.clusters.changePhase(id, { to: "RUNNING", observed: true });
  await db.journal.complete({ operationId, attempt: 1 }, { phase: "SUCCEEDED" });
  const operation = await db.operations.get(organizationId, operationId);
  return { cluster: cluster!, operation: operation! };
}

export function hasBody({ method }: Contract): boolean {
  return method === "POST" || method === "PATCH";
}

export interface CallOptions {
  readonly apiKey?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

/** Sends one request; a body is sent as JSON. */
export async function call(
  app: Hono<ApiEnv>,
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Answer> {
  const response = await app.request(path, {
    method,
    headers: {
      ...(options.apiKey && { authorization: `Bearer ${options.apiKey}` }),
      ...(options.body !== undefined && { "content-type": "application/json" }),
      ...options.headers,
    },
    ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: parse(text) };
}

function parse(text: string): unknown {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return text;
  }
}

/** Brokers in memory, per bootstrap address. */
export class FakeKafka {
  readonly topics = new Map<string, Map<string, Topic>>();
  readonly groups = new Map<string, ConsumerGroup[]>();
  readonly settings = new Map<string, Map<string, string>>();
  /** What a broker says to settings that it refuses. */
  readonly refusals = new Map<string, string>();
  /** Bounds of the broker's machine, by the setting's name. */
  readonly bounds = new Map<string, { min: number; max: number; reason: string }>();
  readonly catchUps = new Map<string, CatchUpAnswer>();
  /** Addresses at which nothing answers. */
  readonly down = new Set<string>();

  readonly access: KafkaAccess = async ({ bootstrapServers }, work) => {
    if (this.down.has(bootstrapServers)) throw new BrokerError("unreachable", "nothing listens");
    const topics = this.topics.get(bootstrapServers) ?? new Map<string, Topic>();
    this.topics.set(bootstrapServers, topics);
    return work({
      createTopic: async ({ name, partitions }) => {
        if (topics.has(name)) throw new BrokerError("topic_exists", "exists");
        topics.set(name, { name, partitions, topicId: undefined, replicationFactor: 1 });
      },
      deleteTopic: async (name) => {
        if (!topics.delete(name)) throw new BrokerError("topic_not_found", "no such topic");
      },
      listTopics: async () => [...topics.values()],
      describeTopic: async (name) => ({ ...topics.get(name)!, configs: {} }),
      listConsumerGroups: async () => this.groups.get(bootstrapServers) ?? [],
      setBrokerSettings: async (_brokerId, settings, options) => {
        const said = this.refusals.get(bootstrapServers);
        if (said !== undefined) throw new BrokerError("invalid_config", "no", { said });
        if (options?.validateOnly) return;
        const known = this.settingsOf(bootstrapServers);
        for (const [name, value] of Object.entries(settings)) known.set(name, value);
      },
    });
  };

  readonly http: BrokerHttpAccess = async (cluster) => {
    const address = bootstrapServers(cluster) ?? "";
    if (this.down.has(address)) throw new BrokerError("unreachable", "nothing listens");
    return {
      settings: async (): Promise<BrokerSettings> =>
        new Map(
          [...this.settingsOf(address)].map(([name, value]) => {
            const { min, max, reason } = this.bounds.get(name) ?? {};
            return [name, { value, dynamic: true, min, max, reason }];
          }),
        ),
      catchUp: async () => {
        const answer = this.catchUps.get(address);
        if (answer === undefined) throw new BrokerError("malformed_answer", "nothing was set");
        return answer;
      },
    };
  };

  /** What the broker has now; at first what a cluster of size `dev` starts with. */
  settingsOf(address: string): Map<string, string> {
    const known = this.settings.get(address) ?? new Map<string, string>();
    if (!this.settings.has(address)) {
      const defaults = tuningDefaults("dev");
      for (const knob of TUNING_KNOBS) known.set(TUNING_PROPERTIES[knob], String(defaults[knob]));
      this.settings.set(address, known);
    }
    return known;
  }
}
