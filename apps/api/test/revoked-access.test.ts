/** Requests that last end soon after their caller has lost access: within five seconds (`access-watch.test.ts`). */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { serve } from "@hono/node-server";
import type { ApiKeyId, OperationId, UserId } from "@millrace/domain";
import { runSql, setUp } from "@millrace/testkit";
import { expect, test, vi } from "vitest";
import {
  apiFixture,
  CONSOLE_URL,
  call,
  impersonate,
  keyOfRole,
  platformOperator,
  runningCluster,
  sessionOf,
} from "./fixture.ts";
import { event } from "./record-broker.ts";

const fixture = apiFixture();
/** Five seconds and what a busy machine adds, but less than a stream or a wait lasts by itself. */
const END_MS_MAX = 20_000;
const RECORD = { partition: 0, offset: "1", value: null };
let server: Server;
let records: string;
let running: OperationId;
let userId: UserId;

setUp(async () => {
  const { db, ours, app } = fixture;
  server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: 0 }) as Server;
  await once(server, "listening");
  const { cluster } = await runningCluster(db, ours, "watched");
  records = `/v1/clusters/${cluster.id}/topics/orders/records/stream`;
  fixture.records.answer = (response) => response.write(event("record", "c1", RECORD));
  const created = await call(app, "POST", "/v1/clusters", {
    ...{ apiKey: ours.apiKey, body: { name: "waited-for" } },
  });
  running = created.body.operation_id;
  userId = (await db.organizations.findUserByEmail("ours@example.com"))!.id;
  return () => {
    server.closeAllConnections();
    server.close();
  };
});

const LASTING = [
  { path: () => records, accept: "application/x-ndjson" },
  { path: () => records, accept: "text/event-stream" },
  { path: () => `/v1/operations/${running}/events`, accept: "text/event-stream" },
];

function open(path: string, headers: Record<string, string>): Promise<Response> {
  const { port } = server.address() as AddressInfo;
  return fetch(`http://127.0.0.1:${port}${path}`, { headers });
}

function bearer(secret: string): Record<string, string> {
  return { authorization: `Bearer ${secret}` };
}

/** Milliseconds that `work` takes. */
async function timed<T>(work: Promise<T>): Promise<readonly [T, ms: number]> {
  const from = performance.now();
  return [await work, performance.now() - from];
}

async function revoke(secret: string): Promise<void> {
  const me = await call(fixture.app, "GET", "/v1/me", { apiKey: secret });
  const id = me.body.api_key.id as ApiKeyId;
  expect(await fixture.db.apiKeys.revoke(fixture.ours.organization.id, id, new Date())).toBe(true);
}

function session(): Promise<{ cookie: string }> {
  return sessionOf(fixture.app, fixture.ours);
}

test("every request that lasts ends after its key was revoked, and says so", async () => {
  const secret = await keyOfRole(fixture.db, fixture.ours, "developer");
  const waits = vi.spyOn(fixture.apiDb.operationSignal, "wait");
  const poll = open(`/v1/operations/${running}?wait=30s`, bearer(secret));
  await vi.waitFor(() => expect(waits).toHaveBeenCalled(), 20_000);
  waits.mockRestore();
  const answers = await Promise.all(
    LASTING.map(({ path, accept }) => open(path(), { ...bearer(secret), accept })),
  );
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  const bodies = Promise.all(answers.map(({ body }) => text(body!)));
  await revoke(secret);
  const [[lines, events, log, polled], ms] = await timed(
    Promise.all([bodies, poll]).then(([read, response]) => [...read, response.status]),
  );
  expect(ms).toBeLessThan(END_MS_MAX);
  expect(lines).toContain('"code":"unauthenticated"');
  expect(events).toContain('"code":"unauthenticated"');
  // Only an operation that is done ends its events so.
  expect(log).not.toContain("event: end");
  expect(polled).toBe(401);
  await vi.waitFor(() => expect(fixture.records.streams).toBe(0), 20_000);
  for (const { path } of LASTING) expect((await open(path(), bearer(secret))).status).toBe(401);
});

test("a stream that nobody reads is disconnected after its key was revoked", async () => {
  const large = { ...RECORD, value: { data: "x".repeat(1024 * 1024) } };
  fixture.records.answer = (response) => {
    const more = () => {
      while (!response.destroyed) {
        if (!response.write(event("record", "c", large))) return void response.once("drain", more);
      }
    };
    more();
  };
  const secret = await keyOfRole(fixture.db, fixture.ours, "developer");
  const served = once(server, "request");
  await open(records, bearer(secret));
  const [, response] = await served;
  const closed = once(response, "close");
  await revoke(secret);
  const [, ms] = await timed(closed);
  expect(ms).toBeLessThan(END_MS_MAX);
  await vi.waitFor(() => expect(fixture.records.streams).toBe(0), 20_000);
  fixture.records.answer = (again) => again.write(event("record", "c1", RECORD));
});

test("a platform operator's stream ends after the impersonation has expired", async () => {
  const operator = await platformOperator(fixture);
  expect((await impersonate(fixture, operator)).status).toBe(201);
  const headers = { cookie: operator.cookie, accept: "text/event-stream" };
  const answer = await open(`/v1/operations/${running}/events`, headers);
  expect(answer.status).toBe(200);
  const body = text(answer.body!);
  await runSql(fixture.ownerUrl, "UPDATE impersonation SET expires_at = now()");
  const [read, ms] = await timed(body);
  expect(ms).toBeLessThan(END_MS_MAX);
  // Only an operation that is done ends its events so.
  expect(read).not.toContain("event: end");
});

test("a stream ends after its session has ended", async () => {
  const headers = await session();
  const body = text((await open(records, headers)).body!);
  await call(fixture.app, "POST", "/api/auth/sign-out", {
    headers: { ...headers, origin: CONSOLE_URL },
    body: {},
  });
  const [read, ms] = await timed(body);
  expect(ms).toBeLessThan(END_MS_MAX);
  expect(read).toContain('"code":"unauthenticated"');
});

test("a stream ends after the role has lost the permission; what the role may do goes on", async () => {
  const { db, ours } = fixture;
  const headers = await session();
  const body = text((await open(records, headers)).body!);
  const left = new AbortController();
  const { port } = server.address() as AddressInfo;
  const events = await fetch(`http://127.0.0.1:${port}/v1/operations/${running}/events`, {
    ...{ headers, signal: left.signal },
  });
  let ended = false;
  const allowed = text(events.body!)
    .catch(() => "")
    .then(() => {
      ended = true;
    });
  await db.organizations.putMember(ours.organization.id, userId, "viewer");
  const [read, ms] = await timed(body);
  expect(ms).toBeLessThan(END_MS_MAX);
  expect(read).toContain('"code":"forbidden"');
  // At least one check later.
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  expect(ended).toBe(false);
  left.abort();
  await allowed;
  await db.organizations.putMember(ours.organization.id, userId, "owner");
});

test("a stream does not outlive its organization's membership in another one", async () => {
  const { db, ours, theirs } = fixture;
  const { id } = theirs.organization;
  await db.tenant(id).organizations.putMember(id, userId, "owner");
  const body = text((await open(records, await session())).body!);
  // No use case removes a member yet.
  await runSql(
    fixture.ownerUrl,
    `DELETE FROM member WHERE organization_id = '${ours.organization.id}' AND user_id = '${userId}'`,
  );
  const [read, ms] = await timed(body);
  expect(ms).toBeLessThan(END_MS_MAX);
  expect(read).toContain('"code":"not_found"');
});
