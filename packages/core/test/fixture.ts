import { BrokerError } from "@millrace/broker-admin";
import { type Database, openDatabase } from "@millrace/db";
import {
  type BrokerStorage,
  type ClusterSize,
  type Principal,
  systemClock,
} from "@millrace/domain";
import { ClusterDrivers } from "@millrace/provisioner";
import { type TestDatabase, withPostgres } from "@millrace/testkit";
import { afterAll, beforeAll } from "vitest";
import {
  type BrokerHttpAccess,
  createCluster,
  createCore,
  type RegionDrivers,
  type WorkerTools,
} from "../src/index.ts";
import { FakeDriver } from "./fake-driver.ts";

export interface CoreFixture {
  db: Database;
  principal: Principal;
}

/** These tests' brokers have no admin HTTP. */
export const brokerHttp: BrokerHttpAccess = async () => {
  throw new BrokerError("unreachable", "no admin HTTP");
};

/** An installation without an AWS account. */
export const drivers: RegionDrivers = {
  local: new FakeDriver(),
  awsPlanner: undefined,
  awsAvailable: false,
};

const silent: WorkerTools["log"] = { info: () => {}, warn: () => {}, error: () => {} };

/** One database with one tenant for a test file; read its parts inside tests only. */
export function coreFixture(): CoreFixture {
  const fixture = {} as CoreFixture;
  let database: TestDatabase;
  beforeAll(async () => {
    database = await withPostgres();
    fixture.db = openDatabase({ url: database.url });
    const { organizations } = fixture.db;
    const organization = await organizations.create({ name: "Tenant", slug: "tenant" });
    await organizations.ensureEnvironment(organization.id, "default");
    fixture.principal = {
      organizationId: organization.id,
      role: "owner",
      userId: undefined,
      apiKeyId: undefined,
    };
  });
  afterAll(async () => {
    await fixture.db?.close();
    await database?.drop();
  });
  return fixture;
}

export interface TestTools extends WorkerTools {
  /** The local one of `drivers`. */
  readonly driver: FakeDriver;
  readonly topics: FakeTopics;
}

/** Topics of one broker, and its storage. */
export class FakeTopics {
  readonly names = new Set<string>();
  /** Nothing answers. */
  down = false;
  storage: BrokerStorage = {
    walCapacityBytes: 256 * 1024 ** 2,
    walUsedBytes: 0,
    uploadPendingBytes: 0,
    uploadsWaitFor: undefined,
  };

  readonly kafka: WorkerTools["kafka"] = async (_address, work) => {
    if (this.down) throw new BrokerError("unreachable", "nothing listens");
    return work({
      createTopic: async ({ name }) => {
        if (this.names.has(name)) throw new BrokerError("topic_exists", "exists");
        this.names.add(name);
      },
      deleteTopic: async (name) => {
        if (!this.names.delete(name)) throw new BrokerError("topic_not_found", "no such topic");
      },
    });
  };
}

export function newTools(db: Database, changes: Partial<WorkerTools> = {}): TestTools {
  const driver = new FakeDriver();
  const drivers = new ClusterDrivers({ local: driver });
  const topics = new FakeTopics();
  const plain = { db, clock: systemClock, smokeCheck: async () => {}, log: silent };
  const { kafka } = topics;
  const storage: WorkerTools["storage"] = async () => topics.storage;
  return { ...plain, kafka, storage, drivers, ...changes, driver, topics };
}

let names = 0;

/** A cluster as a tenant asks for it, with the operation that makes it. */
export async function askForCluster({ db, principal }: CoreFixture, size: ClusterSize = "dev") {
  names += 1;
  const core = createCore({
    db,
    secret: "a secret of the tests, long enough",
    brokerHttp,
    drivers,
  });
  return createCluster(core, principal, { name: `c${names}`, region: "local", size });
}
