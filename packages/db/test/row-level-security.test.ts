import { randomBytes } from "node:crypto";
import { setUp, withEmptyServer, withPostgres } from "@millrace/testkit";
import { describe, expect, test } from "vitest";
import { type Database, openDatabase, RoleUnconfined } from "../src/index.ts";
import { migrate } from "../src/migrate.ts";
import { databaseFixture, newCluster, newTenant } from "./fixture.ts";
import {
  fillTenant,
  readable,
  tenantTables,
  unprotected,
  visible,
  withClient,
} from "./tenant-rows.ts";

const fixture = databaseFixture();
let ours: string;
let theirs: string;

setUp(async () => {
  await withClient(fixture.url, async (owner) => {
    ours = await fillTenant(owner);
    theirs = await fillTenant(owner);
  });
});

describe("every table of a tenant", () => {
  test("has forced row-level security and a policy, and a row in these tests", async () => {
    await withClient(fixture.url, async (owner) => {
      expect(await unprotected(owner)).toEqual([]);
      // The owner of this server is a superuser, whom nothing confines: it sees what there is.
      expect(await visible(owner)).toEqual(await tenantTables(owner));
    });
  });

  test("is in the list of those with one, if it names an organization", async () => {
    await withClient(fixture.url, async (owner) => {
      const { rows } = await owner.query(
        `SELECT DISTINCT table_name AS name FROM information_schema.columns
         WHERE table_schema = 'public' AND column_name = 'organization_id'`,
      );
      const tables = await tenantTables(owner);
      expect(rows.map(({ name }) => name).filter((name) => !tables.includes(name))).toEqual([]);
    });
  });

  test.each(["apiUrl", "workerUrl", "arrangeUrl"] as const)(
    "shows %s nothing without a tenant, and nothing of another one",
    async (url) => {
      await withClient(fixture[url], async (client) => {
        expect(await visible(client)).toEqual([]);
        expect(await visible(client, "org_00000000000000000000000000")).toEqual([]);
        expect(await visible(client, ours)).toEqual(await readable(client));
        expect((await readable(client)).length).toBeGreaterThan(10);
      });
    },
  );

  test("is reported when it loses its policy, its force, or its row-level security", async () => {
    const other = await withPostgres();
    try {
      await withClient(other.url, async (owner) => {
        await fillTenant(owner);
        for (const table of await tenantTables(owner)) {
          await owner.query(`BEGIN; DROP POLICY tenant ON "${table}"`);
          expect(await unprotected(owner)).toEqual([table]);
          await owner.query(`ROLLBACK; BEGIN; ALTER TABLE "${table}" NO FORCE ROW LEVEL SECURITY`);
          expect(await unprotected(owner)).toEqual([table]);
          await owner.query(`ROLLBACK; ALTER TABLE "${table}" DISABLE ROW LEVEL SECURITY`);
          expect(await unprotected(owner)).toEqual([table]);
          await withClient(other.arrangeUrl, async (client) => {
            // With it, those show their rows that are allowed to whoever sees its rows.
            const isReadable = (await readable(client)).includes(table);
            expect((await visible(client)).includes(table)).toBe(isReadable);
          });
          await owner.query(`ALTER TABLE "${table}" ENABLE ROW LEVEL SECURITY`);
        }
        expect(await unprotected(owner)).toEqual([]);
      });
    } finally {
      await other.drop();
    }
  });
});

/** Clusters that a query sees outside of a tenant's transaction, on a connection of the pool. */
function withoutTenant({ identityStore }: Database): Promise<unknown[]> {
  const client = identityStore as unknown as { $queryRawUnsafe(sql: string): Promise<unknown[]> };
  return client.$queryRawUnsafe("SELECT id FROM cluster");
}

test("two tenants on a pool of one connection never see each other's rows", async () => {
  const db = openDatabase({ url: fixture.arrangeUrl, connectionsMax: 1 });
  try {
    const tenants = [await newTenant(db), await newTenant(db)];
    for (const tenant of tenants) await newCluster(tenant);
    await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const { db: own, organization } = tenants[index % 2]!;
        const { items } = await own.clusters.list(organization.id, { limit: 10 });
        expect(items.map((cluster) => cluster.organizationId)).toEqual([organization.id]);
        // What failed leaves nothing behind for the next user of the connection either.
        const failing = own.transaction(async () => {
          throw new Error("changed my mind");
        });
        await expect(failing).rejects.toThrow("changed my mind");
        expect(await withoutTenant(db), "for whoever has the connection next").toEqual([]);
      }),
    );
    expect(await db.signIn.membershipsOf("usr_00000000000000000000000000")).toEqual([]);
  } finally {
    await db.close();
  }
});

test("nobody writes a row of another tenant, nor one that refers to its rows", async () => {
  const [a, b] = [await newTenant(fixture.db), await newTenant(fixture.db)];
  const cluster = await newCluster(b);
  const denied = /row-level security/;
  await expect(newCluster({ ...b, db: a.db })).rejects.toThrow(denied);
  const { id: clusterId, organizationId } = cluster;
  const lag = [{ clusterId, groupId: "g", at: new Date(), lag: 1n, idle: false }];
  await expect(a.db.metrics.add([{ resolution: 10, lag }])).rejects.toThrow(denied);
  const kind = "cluster.delete" as const;
  await expect(a.db.operations.create({ organizationId, clusterId, kind })).rejects.toThrow();
  expect(await a.db.clusters.changePhase(clusterId, { to: "RUNNING" })).toBeUndefined();
  expect((await b.db.clusters.load(clusterId))?.phase).toBe("PROVISIONING");
});

describe("a role that row-level security does not confine is refused", () => {
  test.each(["apiUrl", "workerUrl"] as const)("%s is confined", async (url) => {
    const db = openDatabase({ url: fixture[url] });
    try {
      await db.assertConfined();
    } finally {
      await db.close();
    }
  });

  const problemOf = async (url: string): Promise<string> => {
    const db = openDatabase({ url });
    try {
      const error = await db.assertConfined().catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(RoleUnconfined);
      return (error as Error).message;
    } finally {
      await db.close();
    }
  };

  test("a superuser", async () => {
    expect(await problemOf(fixture.url)).toMatch(/postgres is a superuser.*millrace_api/);
  });

  test.each([
    ["BYPASSRLS", "", /has BYPASSRLS/],
    ["", "GRANT postgres TO ROLE", /is a member of postgres/],
    ["", "GRANT CREATE ON SCHEMA public TO ROLE; SET ROLE ROLE; CREATE TABLE own (id int)", /owns/],
  ])("%s %s", async (attribute, statement, problem) => {
    const role = `probe_${randomBytes(4).toString("hex")}`;
    const other = await withPostgres();
    try {
      await withClient(other.url, async (owner) => {
        await owner.query(`CREATE ROLE ${role} LOGIN PASSWORD 'test' ${attribute}`);
        if (statement !== "")
          await owner.query(statement.replaceAll("ROLE", role).replace(`SET ${role}`, "SET ROLE"));
      });
      const url = new URL(other.url);
      url.username = role;
      url.password = "test";
      expect(await problemOf(url.toString())).toMatch(problem);
    } finally {
      await other.drop();
      await withClient(fixture.url, (owner) => owner.query(`DROP ROLE ${role}`));
    }
  });
});

test("only the worker looks across tenants, and there it changes nothing", async () => {
  const api = openDatabase({ url: fixture.apiUrl });
  const worker = openDatabase({ url: fixture.workerUrl });
  try {
    await expect(api.fleet.clusters.inPhases(["RUNNING"])).rejects.toThrow(/permission denied/);
    const seen = await worker.fleet.clusters.inPhases(["RUNNING"]);
    const organizations: string[] = seen.map((cluster) => cluster.organizationId);
    expect(organizations).toEqual(expect.arrayContaining([ours, theirs]));
    const fleet = worker.fleet.clusters as typeof worker.fleet.clusters & {
      changePhase(id: string, change: { to: "DEGRADED" }): Promise<unknown>;
    };
    await expect(fleet.changePhase(seen[0]!.id, { to: "DEGRADED" })).rejects.toThrow(
      /permission denied/,
    );
  } finally {
    await Promise.all([api.close(), worker.close()]);
  }
});

test("the API sends through the queue, the worker takes and supervises, and neither lacks a right", async () => {
  const errors: Error[] = [];
  const onError = (error: Error) => errors.push(error);
  const api = openDatabase({ url: fixture.apiUrl, onError });
  const worker = openDatabase({ url: fixture.workerUrl, onError });
  try {
    const tenant = await newTenant(api);
    const { id: clusterId, organizationId } = await newCluster(tenant);
    const kind = "cluster.create" as const;
    const { id } = await tenant.db.operations.create({ organizationId, clusterId, kind });
    await tenant.db.transaction((tx) => tx.deliver(id));
    const delivered = await new Promise<string>((resolve) => {
      void worker.queue.work(1, async (operation) => resolve(operation));
    });
    expect(delivered).toBe(id);
    // Longer than the time between two rounds of the queue's maintenance.
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    expect(errors).toEqual([]);
  } finally {
    await Promise.all([api.close(), worker.close()]);
  }
});

test("an owner that is no superuser migrates an empty server, and sees no tenant's rows itself", async () => {
  const server = await withEmptyServer();
  try {
    await withClient(server.url, (admin) =>
      admin.query("CREATE ROLE master LOGIN PASSWORD 'test' CREATEROLE CREATEDB"),
    );
    const urlOf = (role: string) => {
      const url = new URL(server.url);
      Object.assign(url, { username: role, password: "test", pathname: "/millrace" });
      return url.toString();
    };
    const roles = { api: urlOf("millrace_api"), worker: urlOf("millrace_worker") };
    await migrate(urlOf("master"), roles);
    await migrate(urlOf("master"), roles);
    const [api, worker] = [openDatabase({ url: roles.api }), openDatabase({ url: roles.worker })];
    try {
      await Promise.all([api.assertConfined(), worker.assertConfined()]);
      const tenant = await newTenant(api);
      const secretHash = new Uint8Array(32).fill(7);
      const organizationId = tenant.organization.id;
      const key = { organizationId, name: "k", role: "viewer", hint: "h", secretHash } as const;
      await tenant.db.apiKeys.create(key);
      expect(await api.signIn.findBySecret(secretHash)).toMatchObject({ organizationId });
      expect(await api.signIn.findBySlug(organizationId)).toMatchObject({ id: organizationId });
      const cluster = await newCluster(tenant);
      expect(await worker.fleet.clusters.load(cluster.id)).toEqual(cluster);
      await withClient(urlOf("master"), async (owner) => {
        expect(await visible(owner)).toEqual([]);
        await owner.query("SET app.owner_path = 'on'");
        expect(await visible(owner)).toContain("cluster");
      });
      // The same setting says nothing where somebody else makes it.
      await withClient(roles.api, async (client) => {
        await client.query("SET app.owner_path = 'on'");
        expect(await visible(client)).toEqual([]);
      });
    } finally {
      await Promise.all([api.close(), worker.close()]);
    }
  } finally {
    await server.stop();
  }
});

test("a role's address that names another role, or no password, is refused", async () => {
  const url = new URL(fixture.url);
  url.username = "millrace_api";
  url.password = "";
  await expect(migrate(fixture.url, { api: url.toString() })).rejects.toThrow("without a password");
  await expect(migrate(fixture.url, { worker: fixture.url })).rejects.toThrow(
    "names the role postgres",
  );
});

test("a process that stands still keeps no transaction, and no lock is waited for without end", async () => {
  for (const url of [fixture.apiUrl, fixture.workerUrl]) {
    await withClient(url, async (client) => {
      const settings = await client.query(
        "SELECT current_setting('idle_in_transaction_session_timeout') AS idle, current_setting('lock_timeout') AS lock",
      );
      expect(settings.rows).toEqual([{ idle: "20s", lock: "10s" }]);
    });
  }
});
