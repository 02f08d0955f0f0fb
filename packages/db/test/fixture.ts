import { type Cluster, type Environment, newId, type Organization } from "@millrace/domain";
import { setUp, type TestDatabase, withPostgres } from "@millrace/testkit";
import { type Database, openDatabase, type TenantDatabase } from "../src/index.ts";

export interface Tenant {
  /** Its rows, and what belongs to no tenant. */
  readonly db: Database & TenantDatabase;
  readonly organization: Organization;
  readonly environment: Environment;
}

/** One database for a test file; read `fixture.db` inside tests only. */
export interface DatabaseFixture extends TestDatabase {
  /** With the rights of API and worker. */
  db: Database;
}

export function databaseFixture(): DatabaseFixture {
  const fixture = {} as DatabaseFixture;
  setUp(async () => {
    const database = await withPostgres();
    Object.assign(fixture, database);
    fixture.db = openDatabase({ url: database.arrangeUrl });
    return async () => {
      await fixture.db.close();
      await database.drop();
    };
  });
  return fixture;
}

export async function newTenant(db: Database): Promise<Tenant> {
  const id = newId("org");
  const own = { ...db, ...db.tenant(id) };
  const organization = await own.organizations.create({ id, name: "Tenant", slug: id });
  const environment = await own.organizations.ensureEnvironment(id, "default");
  return { db: own, organization, environment };
}

export async function newCluster(tenant: Tenant, name = "orders"): Promise<Cluster> {
  return tenant.db.clusters.create({
    organizationId: tenant.organization.id,
    environmentId: tenant.environment.id,
    name,
    region: "local",
    size: "dev",
    labels: { team: "a" },
    conditions: [],
  });
}
