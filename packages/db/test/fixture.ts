import { type Cluster, type Environment, newId, type Organization } from "@millrace/domain";
import { type TestDatabase, withPostgres } from "@millrace/testkit";
import { afterAll, beforeAll } from "vitest";
import { type Database, openDatabase } from "../src/index.ts";

export interface Tenant {
  readonly organization: Organization;
  readonly environment: Environment;
}

/** One database for a test file; read `fixture.db` inside tests only. */
export function databaseFixture(): { db: Database; url: string } {
  const fixture = {} as { db: Database; url: string };
  let database: TestDatabase;
  beforeAll(async () => {
    database = await withPostgres();
    fixture.url = database.url;
    fixture.db = openDatabase({ url: database.url });
  });
  afterAll(async () => {
    await fixture.db?.close();
    await database?.drop();
  });
  return fixture;
}

export async function newTenant(db: Database): Promise<Tenant> {
  const organization = await db.organizations.create({
    name: "Tenant",
    slug: newId("org").toLowerCase(),
  });
  const environment = await db.organizations.ensureEnvironment(organization.id, "default");
  return { organization, environment };
}

export async function newCluster(db: Database, tenant: Tenant, name = "orders"): Promise<Cluster> {
  return db.clusters.create({
    organizationId: tenant.organization.id,
    environmentId: tenant.environment.id,
    name,
    region: "local",
    size: "dev",
    labels: { team: "a" },
    conditions: [],
  });
}
