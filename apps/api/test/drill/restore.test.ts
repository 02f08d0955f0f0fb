/**
 * PostgreSQL is lost and restored to a point in time: what was committed until then is there, what came later is not, and
 * people, keys and audit logs are as they were. The steps are those of OPERATIONS.md, "Restore PostgreSQL".
 */
import { createIdentity, DeferredWrites } from "@millrace/auth";
import { bootstrapTenant } from "@millrace/core";
import { type Database, openDatabase } from "@millrace/db";
import { systemClock } from "@millrace/domain";
import { ArchivedPostgres, everyRow } from "@millrace/testkit";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createApi } from "../../src/create-api.ts";
import { API_URL, CONSOLE_URL, call, FakeKafka, FakePlanner, sessionOf } from "../fixture.ts";
import { RecordBroker } from "../record-broker.ts";

const SECRET = "a secret of the tests, long enough";
/** Of each kind of row before and after the base backup, and after the point in time. */
const CHANGES = 20;

let server: ArchivedPostgres;
let records: RecordBroker;

beforeAll(async () => {
  records = await RecordBroker.start();
  server = await ArchivedPostgres.start();
});

afterAll(async () => {
  await records.stop();
  await server.stop();
});

/** The API over the server as it is now. */
function openApi() {
  const db = openDatabase({ url: server.apiUrl });
  const kafka = new FakeKafka(records);
  const local = new FakePlanner();
  const app = createApi({
    ...{ db, secret: SECRET, apiUrl: API_URL, consoleUrl: CONSOLE_URL, rateLimit: false },
    ...{ log: pino({ level: "silent" }), brokerHttp: kafka.http },
    deferredWrites: new DeferredWrites((error) => {
      throw error;
    }),
    drivers: { local, awsPlanner: undefined, localAvailable: true, awsRegion: undefined },
  });
  return { db, app };
}

async function tenantIn(db: Database) {
  const identity = createIdentity({ db, secret: SECRET, apiUrl: API_URL, trustedOrigins: [] });
  return bootstrapTenant(
    { db, clock: systemClock, identity },
    {
      ...{ email: "owner@example.com", userName: "Owner", environment: "default" },
      organization: { name: "Tenant", slug: "tenant" },
    },
  );
}

test("a database that was destroyed is back as it was at a point in time", async () => {
  const { db, app } = openApi();
  const tenant = await tenantIn(db);
  const { apiKey } = tenant;
  const change = async (prefix: string) => {
    for (let n = 0; n < CHANGES; n += 1) {
      const name = `${prefix}-${n}`;
      const made = await call(app, "POST", "/v1/environments", { apiKey, body: { name } });
      expect(made.status).toBe(201);
    }
    const made = await call(app, "POST", "/v1/clusters", { apiKey, body: { name: prefix } });
    expect(made.status).toBe(202);
    const invited = { email: `${prefix}@example.com` };
    await call(app, "POST", "/v1/invitations", { apiKey, body: invited });
  };
  await change("before");
  const during = change("during");
  await server.backUp();
  await during;
  await change("after");
  const rows = await allRows();
  const time = await server.now();
  await change("lost");
  expect(await allRows()).not.toEqual(rows);
  await db.close();

  await server.destroy();
  await server.restoreTo(time);

  expect(await allRows()).toEqual(rows);
  const restored = openApi();
  try {
    const clusters = await call(restored.app, "GET", "/v1/clusters", { apiKey });
    const names = clusters.body.items.map(({ spec }: Named) => spec.name).sort();
    expect(names).toEqual(["after", "before", "during"]);
    const { cookie } = await sessionOf(restored.app, tenant);
    const me = await call(restored.app, "GET", "/v1/me", { headers: { cookie } });
    expect(me.body.user.email).toBe(tenant.email);
    const { id } = me.body.organization;
    const { audit } = restored.db.tenant(id);
    const verify = () => audit.verify(id, { seq: 0n, hash: Buffer.of() }, 10_000);
    const chain = await verify();
    expect(chain.brokenSeq).toBeUndefined();
    // The chain continues where it was, and the database takes changes.
    const body = { name: "again" };
    const made = await call(restored.app, "POST", "/v1/environments", { apiKey, body });
    expect(made.status).toBe(201);
    const longer = await verify();
    expect(longer.brokenSeq).toBeUndefined();
    expect(longer.head.seq).toBe(chain.head.seq + 1n);
  } finally {
    await restored.db.close();
  }
});

async function allRows(): Promise<string[]> {
  return (await everyRow(server.url)).split("\n").sort();
}

interface Named {
  readonly spec: { readonly name: string };
}
