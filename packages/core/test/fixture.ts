import { BrokerError, BrokerHttp } from "@millrace/broker-admin";
import { type Database, openDatabase, type TenantDatabase } from "@millrace/db";
import {
  type BrokerStorage,
  type ClusterSize,
  newId,
  type Principal,
  SCRAM_MECHANISMS,
  systemClock,
} from "@millrace/domain";
import { ClusterDrivers } from "@millrace/provisioner";
import { setUp, withPostgres } from "@millrace/testkit";
import {
  type BrokerHttpAccess,
  type BrokerHttpPort,
  type Core,
  type CoreOptions,
  coreOf,
  createCluster,
  createCore,
  type RegionDrivers,
  type WorkerTools,
} from "../src/index.ts";
import { FakeDriver } from "./fake-driver.ts";

/** One tenant's rows, to arrange and to look at, and the database as API and worker see it. */
export type TestDatabaseOfTenant = Database &
  TenantDatabase & { readonly api: Database; readonly worker: Database };

export interface CoreFixture {
  db: TestDatabaseOfTenant;
  /** The database as its owner sees it. */
  ownerUrl: string;
  /** The database as the API sees it. */
  apiUrl: string;
  principal: Principal;
}

/** A broker that answers these calls, and at which nothing listens for any other. */
export function brokerWith(calls: Partial<BrokerHttpPort>): BrokerHttpPort {
  const nobody = new BrokerHttp({ adminUrl: "http://127.0.0.1:1", adminToken: "none" });
  return Object.assign(nobody, calls);
}

/** These tests' brokers have no admin HTTP. */
const brokerHttp: BrokerHttpAccess = async () => {
  throw new BrokerError("unreachable", "no admin HTTP");
};

/** No way to any broker. */
export const unreachable = { brokerHttp } as const;

/** An installation without an AWS account. */
export const drivers: RegionDrivers = {
  local: new FakeDriver(),
  awsPlanner: undefined,
  localAvailable: true,
  awsRegion: undefined,
};

const silent: WorkerTools["log"] = { info: () => {}, warn: () => {}, error: () => {} };

/** The database, for a worker whose leases are renewed in another way: a dead one renews none. */
export function withRenewals(
  db: TestDatabaseOfTenant,
  renew: TenantDatabase["journal"]["renew"],
): Database {
  const journal = Object.create(db.journal, { renew: { value: renew } });
  const tenant = Object.create(db, { journal: { value: journal } });
  return Object.create(db, { tenant: { value: () => tenant } });
}

/** One database with one tenant for a test file; read its parts inside tests only. */
export function coreFixture(): CoreFixture {
  const fixture = {} as CoreFixture;
  setUp(async () => {
    const database = await withPostgres();
    fixture.ownerUrl = database.url;
    fixture.apiUrl = database.apiUrl;
    const organizationId = newId("org");
    const arranging = openDatabase({ url: database.arrangeUrl });
    fixture.db = {
      ...arranging,
      ...arranging.tenant(organizationId),
      api: openDatabase({ url: database.apiUrl }),
      worker: openDatabase({ url: database.workerUrl }),
    };
    const { organizations } = fixture.db;
    await organizations.create({ id: organizationId, name: "Tenant", slug: "tenant" });
    await organizations.ensureEnvironment(organizationId, "default");
    fixture.principal = {
      organizationId,
      role: "owner",
      userId: undefined,
      apiKeyId: undefined,
    };
    return async () => {
      const { db } = fixture;
      await Promise.all([db.close(), db.api.close(), db.worker.close()]);
      await database.drop();
    };
  });
  return fixture;
}

export interface TestTools extends WorkerTools {
  /** The local one of `drivers`. */
  readonly driver: FakeDriver;
  readonly fake: FakeTopics;
}

/** Topics and users of one broker, and its storage. */
export class FakeTopics {
  readonly names = new Set<string>();
  /** Passwords by user. */
  readonly users = new Map<string, string>();
  /** Nothing answers. */
  down = false;
  storage: BrokerStorage = {
    walCapacityBytes: 256 * 1024 ** 2,
    walUsedBytes: 0,
    walSecondsLeft: 86_400,
    uploadPendingBytes: 0,
    uploadsWaitFor: undefined,
  };

  readonly accounts: ReturnType<WorkerTools["users"]> = {
    describeUser: async (name) => {
      this.#answer();
      if (!this.users.has(name)) throw new BrokerError("user_not_found", "no such user");
      return { name, mechanisms: SCRAM_MECHANISMS };
    },
    putPassword: async (name, password) => void this.users.set(name, password),
  };

  readonly topics: WorkerTools["topics"] = () => ({
    create: async ({ name }) => {
      this.#answer();
      if (this.names.has(name)) throw new BrokerError("topic_exists", "exists");
      this.names.add(name);
    },
    delete: async (name) => {
      this.#answer();
      if (!this.names.delete(name)) throw new BrokerError("topic_not_found", "no such topic");
    },
  });

  #answer(): void {
    if (this.down) throw new BrokerError("unreachable", "nothing listens");
  }
}

export function newTools(
  { worker: db }: TestDatabaseOfTenant,
  changes: Partial<WorkerTools> = {},
): TestTools {
  const driver = new FakeDriver();
  const drivers = new ClusterDrivers({ local: driver });
  const fake = new FakeTopics();
  const plain = { db, clock: systemClock, smokeCheck: async () => {}, log: silent };
  const { topics } = fake;
  const storage: WorkerTools["storage"] = async () => fake.storage;
  const users = () => fake.accounts;
  const applyTuning = async () => {};
  return { ...plain, users, topics, storage, applyTuning, drivers, ...changes, driver, fake };
}

/** The use cases of the fixture's tenant, with the API's rights. */
export function coreFor(
  { db, principal }: Pick<CoreFixture, "db" | "principal">,
  options: Omit<CoreOptions, "db" | "secret">,
): Core {
  const parts = createCore({
    db: db.api,
    secret: "a secret of the tests, long enough",
    ...options,
  });
  return coreOf(parts, principal.organizationId);
}

let names = 0;

/** A cluster as a tenant asks for it, with the operation that makes it. */
export async function askForCluster({ db, principal }: CoreFixture, size: ClusterSize = "dev") {
  names += 1;
  const core = coreFor({ db, principal }, { ...unreachable, drivers });
  return createCluster(core, principal, { name: `c${names}`, region: "local", size });
}
