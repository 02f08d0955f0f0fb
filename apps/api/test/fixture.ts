import { isDeepStrictEqual } from "node:util";
import {
  createIdentity,
  DeferredWrites,
  newApiKeySecret,
  type OutgoingRequests,
} from "@millrace/auth";
import {
  BrokerError,
  type BrokerGroups,
  type BrokerSettings,
  type BrokerTopics,
  type CatchUpAnswer,
  parseFamilies,
} from "@millrace/broker-admin";
import type { Contract } from "@millrace/contract";
import {
  addPlatformOperator,
  type BootstrapAnswer,
  type BrokerHttpAccess,
  bootstrapTenant,
  type RegionDrivers,
} from "@millrace/core";
import { type Database, openDatabase, PlatformOperators, type TenantDatabase } from "@millrace/db";
import {
  type Acl,
  type AclFilter,
  type BrokerStorage,
  type BucketPolicy,
  bootstrapServers,
  brokerIdsOf,
  type ClientQuota,
  type Cluster,
  type ClusterMembers,
  type ConsumerGroup,
  type DescribedTopic,
  type Environment,
  type MeasuredClients,
  newId,
  type Operation,
  type Organization,
  type QuotaChanges,
  type QuotaEntity,
  type QuotaUsage,
  quotaKey,
  type Role,
  type ScramMechanism,
  systemClock,
  TUNING_KNOBS,
  TUNING_PROPERTIES,
  tuningDefaults,
} from "@millrace/domain";
import {
  type AttributeChange,
  type ChangePlan,
  type ClusterDeployment,
  changePlan,
  type Placement,
  type PlanOptions,
  recoveryPlan,
} from "@millrace/provisioner";
import { setUp, withPostgres } from "@millrace/testkit";
import type { Hono } from "hono";
import { type Logger, pino } from "pino";
import { createApi } from "../src/create-api.ts";
import type { LimitName } from "../src/limits/request-limits.ts";
import type { ApiEnv } from "../src/request-context.ts";
import { RecordBroker } from "./record-broker.ts";

export const API_URL = "http://localhost:4000";
export const CONSOLE_URL = "http://localhost:3000";
export const ROOT_CERTIFICATE = "-----BEGIN CERTIFICATE-----\n";
/** The installation's secret. */
export const SECRET = "a secret of the tests, long enough";

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
  /** With the rights of API and worker, and the rows of `ours`; others' by `tenant`. */
  db: Database & TenantDatabase;
  /** As the API under test has it. */
  apiDb: Database;
  deferredWrites: DeferredWrites;
  /** The database as its owner sees it. */
  ownerUrl: string;
  /** The database as the API sees it. */
  apiDbUrl: string;
  kafka: FakeKafka;
  /** Holds the records of every cluster's topics. */
  records: RecordBroker;
  planner: FakePlanner;
  /** Two tenants that must never see each other's things. */
  ours: Tenant;
  theirs: Tenant;
}

/** One API over one database for a test file; read its parts inside tests only. */
export function apiFixture(
  options: {
    rateLimit?: boolean;
    requestPolicies?: Readonly<Record<LimitName, BucketPolicy>>;
    drivers?: RegionDrivers;
    /** Where browsers find console and API. */
    origin?: string;
    log?: Logger;
    outgoing?: OutgoingRequests;
    impersonationMayWrite?: boolean;
  } = {},
): ApiFixture {
  const fixture = {} as ApiFixture;
  const deferredWrites = new DeferredWrites((error) => {
    throw error;
  });
  fixture.deferredWrites = deferredWrites;
  setUp(async () => {
    const database = await withPostgres();
    const db = openDatabase({ url: database.apiUrl });
    fixture.apiDb = db;
    fixture.ownerUrl = database.url;
    fixture.apiDbUrl = database.apiUrl;
    fixture.records = await RecordBroker.start();
    fixture.kafka = new FakeKafka(fixture.records);
    fixture.planner = new FakePlanner();
    fixture.app = createApi({
      db,
      deferredWrites,
      secret: SECRET,
      apiUrl: options.origin ?? API_URL,
      consoleUrl: options.origin ?? CONSOLE_URL,
      log: options.log ?? pino({ level: "silent" }),
      brokerHttp: fixture.kafka.http,
      drivers: options.drivers ?? {
        local: fixture.planner,
        awsPlanner: fixture.planner,
        localAvailable: true,
        awsRegion: undefined,
      },
      rateLimit: options.rateLimit ?? false,
      impersonationMayWrite: options.impersonationMayWrite ?? false,
      ...(options.outgoing && { outgoing: options.outgoing }),
      ...(options.requestPolicies && { requestPolicies: options.requestPolicies }),
    });
    fixture.ours = await newTenant(db, "ours");
    fixture.theirs = await newTenant(db, "theirs");
    const arranging = openDatabase({ url: database.arrangeUrl });
    fixture.db = { ...arranging, ...arranging.tenant(fixture.ours.organization.id) };
    return async () => {
      await fixture.records.stop();
      await deferredWrites.settled();
      await Promise.all([fixture.db.close(), db.close()]);
      await database.drop();
    };
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
  const organization = await db.signIn.findBySlug(name);
  const { organizations } = db.tenant(organization!.id);
  const [environment] = (await organizations.environments(organization!.id, { limit: 1 })).items;
  return { ...answer, organization: organization!, environment: environment! };
}

/** A key of another role than the tenant's own. */
export async function keyOfRole(db: Database, tenant: Tenant, role: Role): Promise<string> {
  const { secret, hash, hint } = newApiKeySecret();
  const { id: organizationId } = tenant.organization;
  const { apiKeys } = db.tenant(organizationId);
  await apiKeys.create({ organizationId, name: role, role, hint, secretHash: hash });
  return secret;
}

/** A person with that role in the tenant `ours`: the header of a session. */
export async function personOfRole(
  { app, apiDb: db, ours }: ApiFixture,
  role: Role,
): Promise<{ cookie: string }> {
  const identity = createIdentity({ db, secret: SECRET, apiUrl: API_URL, trustedOrigins: [] });
  const { id } = ours.organization;
  const person = {
    email: `${role}-${newId("usr")}@example.com`,
    password: "a long enough password",
  };
  const userId = await identity.createUser({ ...person, name: role });
  await db.tenant(id).organizations.putMember(id, userId, role);
  return sessionOf(app, person);
}

/** Somebody who runs the installation and belongs to no organization. */
export async function platformOperator({
  app,
  apiDb: db,
  ownerUrl,
}: ApiFixture): Promise<{ email: string; password: string; cookie: string }> {
  const identity = createIdentity({ db, secret: SECRET, apiUrl: API_URL, trustedOrigins: [] });
  const email = `platform-${newId("usr")}@example.com`.toLowerCase();
  const operators = await PlatformOperators.open(ownerUrl);
  const password = await addPlatformOperator({ operators, identity }, email);
  await operators.close();
  return { email, password, ...(await sessionOf(app, { email, password })) };
}

/** Has a platform operator act as the first owner of `ours`, or as another member. */
export async function impersonate(
  { app, ours }: ApiFixture,
  { cookie }: { cookie: string },
  body: { write?: boolean; member_email?: string; organization_id?: string } = {},
): Promise<Answer> {
  const reason = "ticket 4711: the cluster does not start";
  return call(app, "POST", "/api/platform/impersonations", {
    headers: { cookie, origin: CONSOLE_URL },
    body: { organization_id: ours.organization.id, reason, ...body },
  });
}

/** Signs a person in: the header of their session. */
export async function sessionOf(
  app: Hono<ApiEnv>,
  { email, password }: Pick<BootstrapAnswer, "email" | "password">,
): Promise<{ cookie: string }> {
  const signIn = await call(app, "POST", "/api/auth/sign-in/email", { body: { email, password } });
  return { cookie: signIn.headers.get("set-cookie")?.split(";")[0] ?? "" };
}

/** The id of a new session of the tenant's first user. */
export async function sessionIdOf(app: Hono<ApiEnv>, tenant: Tenant): Promise<string> {
  const { email, password } = tenant;
  const signIn = await call(app, "POST", "/api/auth/sign-in/email", { body: { email, password } });
  const cookie = signIn.headers.get("set-cookie")?.split(";")[0] ?? "";
  const { body } = await call(app, "GET", "/v1/me/sessions", { headers: { cookie } });
  return body.items.find(({ current }: { current: boolean }) => current).id;
}

let ports = 20_000;

/** A cluster that serves clients, without a worker having made it. */
export async function runningCluster(
  database: Database,
  tenant: Tenant,
  name: string,
  brokers = 1,
): Promise<{ cluster: Cluster; operation: Operation }> {
  const organizationId = tenant.organization.id;
  const db = database.tenant(organizationId);
  const { id } = await db.clusters.create({
    organizationId,
    environmentId: tenant.environment.id,
    name,
    region: "local",
    size: "dev",
    labels: {},
    conditions: [],
    brokers,
  });
  const { id: operationId } = await db.operations.create({
    organizationId,
    clusterId: id,
    kind: "cluster.create",
  });
  ports += 3 * brokers;
  await db.clusters.recordPlacement(id, {
    host: "127.0.0.1",
    kafkaPort: ports,
    adminPort: ports + brokers,
    tlsPort: ports + 2 * brokers,
  });
  await db.journal.claim(operationId, "test", 60_000);
  const cluster = await db.clusters.changePhase(id, { to: "RUNNING", observed: true });
  await db.journal.complete({ operationId, attempt: 1 }, { phase: "SUCCEEDED" });
  const operation = await db.operations.get(organizationId, operationId);
  return { cluster: cluster!, operation: operation! };
}

/** Whether requests of the contract carry a body. */
export function hasBody({ body }: Contract): boolean {
  return Object.keys(body).length > 0;
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

const IDLE_STORAGE: BrokerStorage = {
  walCapacityBytes: 256 * 1024 ** 2,
  walUsedBytes: 0,
  walSecondsLeft: 86_400,
  uploadPendingBytes: 0,
  uploadsWaitFor: undefined,
};

/** Brokers in memory, per bootstrap address. */
export class FakeKafka {
  readonly #records: RecordBroker;
  readonly topics = new Map<string, Map<string, DescribedTopic>>();
  /** How often settings of topics were asked for. */
  configRequests = 0;
  groupsDescribed = 0;
  /** Topics that are created after the client has stopped waiting, by name: so much later. */
  readonly lateTopics = new Map<string, number>();
  readonly groups = new Map<string, ConsumerGroup[]>();
  /** Passwords by address, user and mechanism. */
  readonly users = new Map<string, Map<string, Map<ScramMechanism, string>>>();
  /** ACLs by address, and brokers without an authorizer. */
  readonly acls = new Map<string, Acl[]>();
  readonly withoutAuthorizer = new Set<string>();
  /** Quotas by address and entity. */
  readonly quotas = new Map<string, Map<string, ClientQuota>>();
  readonly quotaUsages = new Map<string, QuotaUsage[]>();
  readonly measuredClients = new Map<string, MeasuredClients>();
  /** Addresses of brokers that stop answering once a quota was changed. */
  readonly silentAfterQuota = new Set<string>();
  readonly settings = new Map<string, Map<string, string>>();
  /** What a broker says to settings that it refuses. */
  readonly refusals = new Map<string, string>();
  /** Bounds of the broker's machine, by the setting's name. */
  readonly bounds = new Map<string, { min: number; max: number; reason: string }>();
  readonly catchUps = new Map<string, CatchUpAnswer>();
  /** Metrics texts of brokers by address. */
  readonly metricsTexts = new Map<string, string>();
  /** Storage of brokers by address; an idle one where it is not set. */
  readonly storages = new Map<string, BrokerStorage>();
  /** Addresses at which nothing answers. */
  readonly down = new Set<string>();

  constructor(records: RecordBroker) {
    this.#records = records;
  }

  #users(address: string) {
    const users = this.users.get(address) ?? new Map<string, Map<ScramMechanism, string>>();
    this.users.set(address, users);
    const userOf = (name: string) => {
      const passwords = users.get(name);
      if (!passwords) throw new BrokerError("user_not_found", "no such user");
      return { name, mechanisms: [...passwords.keys()].sort() };
    };
    return {
      listUsers: async () => [...users.keys()].map(userOf),
      describeUser: async (name: string) => userOf(name),
      putPassword: async (
        name: string,
        password: string,
        mechanisms: readonly ScramMechanism[],
      ) => {
        const known = users.get(name) ?? new Map<ScramMechanism, string>();
        for (const mechanism of mechanisms) known.set(mechanism, password);
        users.set(name, known);
      },
      removeCredentials: async (name: string, mechanisms: readonly ScramMechanism[]) => {
        const known = users.get(name);
        for (const mechanism of mechanisms) known?.delete(mechanism);
        if (known?.size === 0) users.delete(name);
      },
    };
  }

  #acls(address: string) {
    const acls = this.acls.get(address) ?? [];
    this.acls.set(address, acls);
    const check = () => {
      if (this.withoutAuthorizer.has(address)) throw new BrokerError("authorization_off", "off");
    };
    return {
      listAcls: async ({ patternType, resourceName, ...rest }: AclFilter = {}) => {
        check();
        const fits = (acl: Acl) => {
          if (patternType !== "match") {
            return patternType === undefined || acl.patternType === patternType;
          }
          return acl.patternType === "prefixed"
            ? resourceName?.startsWith(acl.resourceName)
            : [resourceName, "*"].includes(acl.resourceName);
        };
        const named = patternType === "match" ? rest : { ...rest, resourceName };
        return acls.filter(
          (acl) =>
            fits(acl) &&
            Object.entries(named).every(
              ([field, value]) => value === undefined || acl[field as keyof Acl] === value,
            ),
        );
      },
      createAcls: async (added: readonly Acl[]) => {
        check();
        acls.push(...added.filter((acl) => !acls.some((known) => isDeepStrictEqual(known, acl))));
      },
      deleteAcl: async (acl: Acl) => {
        check();
        const at = acls.findIndex((known) => isDeepStrictEqual(known, acl));
        if (at >= 0) acls.splice(at, 1);
        return at >= 0;
      },
    };
  }

  #quotas(address: string) {
    const quotas = this.quotas.get(address) ?? new Map<string, ClientQuota>();
    this.quotas.set(address, quotas);
    let isSilent = false;
    return {
      listQuotas: async () => {
        if (isSilent) throw new BrokerError("timeout", "no answer in time");
        return [...quotas.values()];
      },
      alterQuota: async (entity: QuotaEntity, changes: QuotaChanges) => {
        const key = quotaKey(entity);
        const changed = Object.entries({ ...quotas.get(key)?.limits, ...changes });
        const limits = Object.fromEntries(changed.filter(([, value]) => value != null));
        if (Object.keys(limits).length === 0) quotas.delete(key);
        else quotas.set(key, { ...entity, limits });
        isSilent = this.silentAfterQuota.has(address);
      },
    };
  }

  /** What brokers that share their metadata say of each other. */
  members: ClusterMembers = { members: [], events: [] };

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
      changeSettings: async ({ set, validateOnly }) => {
        const said = this.refusals.get(address);
        if (said !== undefined) throw new BrokerError("invalid_config", "no", { said });
        if (validateOnly) return;
        const known = this.settingsOf(address);
        for (const [name, value] of Object.entries(set)) known.set(name, value);
      },
      ...this.#users(address),
      ...this.#acls(address),
      ...this.#quotas(address),
      storage: async () => this.storages.get(address) ?? IDLE_STORAGE,
      quotaUsage: async () => this.quotaUsages.get(address) ?? [],
      clientMetrics: async () =>
        this.measuredClients.get(address) ?? { clients: [], isTruncated: false },
      catchUp: async () => {
        const answer = this.catchUps.get(address);
        if (answer === undefined) throw new BrokerError("malformed_answer", "nothing was set");
        return answer;
      },
      brokerReports: async () =>
        brokerIdsOf(cluster).map((brokerId) => ({
          ...{ brokerId, version: "0.1.0", uptimeMs: 61_500 },
          storage: this.storages.get(address) ?? IDLE_STORAGE,
        })),
      cluster: async () => this.members,
      brokerMetrics: async () => {
        const families = parseFamilies(this.metricsTexts.get(address) ?? "");
        return [{ brokerId: 0, families }];
      },
      records: this.#records.records,
      topics: this.#topics(address) as BrokerTopics,
      groups: this.#groups(address) as BrokerGroups,
    };
  };

  #groups(address: string): Pick<BrokerGroups, "list" | "describe"> {
    const groups = this.groups.get(address) ?? [];
    return {
      list: async ({ after = "", limit } = {}) => {
        const rest = groups
          .filter(({ groupId }) => groupId > after)
          .sort((a, b) => (a.groupId < b.groupId ? -1 : 1));
        const page = rest.slice(0, limit);
        this.groupsDescribed += page.length;
        const next = rest.length > page.length ? page.at(-1)?.groupId : undefined;
        return { groups: page, next };
      },
      describe: async (id) => {
        const group = groups.find(({ groupId }) => groupId === id);
        if (!group) throw new BrokerError("group_not_found", "no such group");
        return { ...group, assignor: "range", groupMembers: [] };
      },
    };
  }

  #topics(address: string): Omit<BrokerTopics, "names"> {
    const topics = this.topics.get(address) ?? new Map<string, DescribedTopic>();
    this.topics.set(address, topics);
    const listDescribed: BrokerTopics["listDescribed"] = async ({ after = "", limit } = {}) => {
      const rest = [...topics.values()]
        .filter(({ name }) => name > after)
        .sort((a, b) => (a.name < b.name ? -1 : 1));
      const page = rest.slice(0, limit);
      return { topics: page, next: rest.length > page.length ? page.at(-1)?.name : undefined };
    };
    return {
      create: async ({ name, partitions, configs }) => {
        if (topics.has(name)) throw new BrokerError("topic_exists", "exists");
        const topic = { name, partitions, topicId: undefined, replicationFactor: 1 };
        const create = () => topics.set(name, { ...topic, configs: withDefaults(configs) });
        const lateMs = this.lateTopics.get(name);
        if (lateMs === undefined) return void create();
        setTimeout(create, lateMs);
        throw new BrokerError("timeout", "no answer in time");
      },
      delete: async (name) => {
        if (!topics.delete(name)) throw new BrokerError("topic_not_found", "no such topic");
      },
      list: async (range) => {
        const page = await listDescribed(range);
        return { ...page, topics: page.topics.map(({ configs: _, ...topic }) => topic) };
      },
      listDescribed: async (range) => {
        this.configRequests += 1;
        return await listDescribed(range);
      },
      describe: async (name) => topicOf(topics, name),
      change: async (name, { configs: changes = {}, partitions }, options) => {
        const { configs, ...topic } = topicOf(topics, name);
        if (changes["retention.ms"] === "soon")
          throw new BrokerError("invalid_config", "no number");
        if (options?.validateOnly) return;
        const own = Object.entries(configs).filter(([, { source }]) => source === "topic");
        const values = Object.fromEntries(own.map(([key, { value }]) => [key, value]));
        const changed = withDefaults({ ...values, ...changes });
        topics.set(name, {
          ...topic,
          partitions: partitions ?? topic.partitions,
          configs: changed,
        });
      },
    };
  }

  /** What the broker has now; at first what a cluster of size `dev` starts with. */
  settingsOf(address: string): Map<string, string> {
    const known = this.settings.get(address) ?? new Map<string, string>();
    if (!this.settings.has(address)) {
      const defaults = tuningDefaults({ size: "dev" });
      for (const knob of TUNING_KNOBS) known.set(TUNING_PROPERTIES[knob], String(defaults[knob]));
      this.settings.set(address, known);
    }
    return known;
  }
}

function topicOf(topics: Map<string, DescribedTopic>, name: string): DescribedTopic {
  const topic = topics.get(name);
  if (!topic) throw new BrokerError("topic_not_found", "no such topic");
  return topic;
}

/** What is set on the topic, and one setting that has its default unless it is. */
function withDefaults(set: Readonly<Record<string, string | null>>): DescribedTopic["configs"] {
  const own = Object.entries(set).flatMap(([name, value]) =>
    value === null ? [] : [[name, { value, source: "topic" as const }] as const],
  );
  return { "retention.ms": { value: "604800000", source: "default" }, ...Object.fromEntries(own) };
}

/** Plans that say what they were asked for. */
/** What `millrace recover --json` says of every cluster here. */
const RECOVERY_REPORT = {
  ...{ source: "bucket", recovered_to: "2026-11-22T10:00:00Z", topics: 1, partitions: 1 },
  ...{ records_from_wal: "0", bytes_from_wal: "0", warnings: [] },
  missing: [
    {
      ...{ topic: "orders", partition: 0, from_offset: "10", to_offset: "12" },
      acknowledged_by: "2026-11-22T10:00:05Z",
    },
  ],
};

export class FakePlanner {
  readonly asked: { readonly clusterId: string; readonly purpose: string }[] = [];
  /** What plans end with instead, where set. */
  failure: Error | undefined;

  async allocate(): Promise<Placement> {
    return { host: "127.0.0.1", kafkaPort: 1, adminPort: 2, tlsPort: 3 };
  }

  async rootCertificate(): Promise<string> {
    return ROOT_CERTIFICATE;
  }

  async plan(deployment: ClusterDeployment, options: PlanOptions): Promise<ChangePlan> {
    if (this.failure) throw this.failure;
    const { clusterId, size, aws } = deployment;
    this.asked.push({ clusterId, purpose: options.purpose });
    if (options.purpose === "recover") return recoveryPlan(JSON.stringify(RECOVERY_REPORT));
    const attribute = (name: string, after: unknown) => ({
      name,
      before: null,
      after: String(after),
    });
    const change = (address: string, type: string, attributes: AttributeChange[]) =>
      ({ address, type, action: "create", attributes }) as const;
    const machine = change("broker", "process", [attribute("size", size)]);
    const volume = change("wal", "volume", [attribute("throughput", aws?.wal.throughputMibps)]);
    const template = change("slot", "aws_launch_template", [
      attribute("throughput", aws?.wal.throughputMibps),
    ]);
    const made =
      aws === undefined ? [{ ...machine, action: "update" as const }] : [machine, template];
    const keeps = options.purpose === "destroy";
    return changePlan(`plan-${options.purpose}`, keeps ? [volume] : [...made, volume]);
  }
}
