import { contracts } from "@millrace/contract";
import { runSql, setUp } from "@millrace/testkit";
import { describe, expect, test } from "vitest";
import { ABSENT, askProcedure, askRoute, CASES, type Ids, type Sender } from "./every-contract.ts";
import {
  type Answer,
  apiFixture,
  CONSOLE_URL,
  call,
  impersonate,
  platformOperator,
  runningCluster,
  sessionIdOf,
  sessionOf,
  type Tenant,
} from "./fixture.ts";

/**
 * Every route and every procedure is called by one tenant with the ids of another, by a key and by a
 * person. The answer must be that of an id which does not exist, word for word but for the id; lists must
 * be empty.
 */
const fixture = apiFixture();
/** Calls of the random mix. */
const RANDOM_CALLS = 4_000;

let ours: Ids;
let theirs: Ids;
let senders: Record<"key" | "person", Sender>;
let operator: Sender;
setUp(async () => {
  ours = await idsOf(fixture.ours, "own-cluster", "own");
  theirs = await idsOf(fixture.theirs, "secret-cluster", "secret");
  const { apiKey } = fixture.ours;
  const { cookie } = await sessionOf(fixture.app, fixture.ours);
  operator = { cookie: (await platformOperator(fixture)).cookie };
  senders = { key: { authorization: `Bearer ${apiKey}` }, person: { cookie } };
});

async function idsOf(tenant: Tenant, name: string, topic: string): Promise<Ids> {
  const { app, db } = fixture;
  const { apiKey } = tenant;
  const { cluster, operation } = await runningCluster(db, tenant, name);
  const me = await call(app, "GET", "/v1/me", { apiKey });
  await call(app, "POST", `/v1/clusters/${cluster.id}/topics`, { apiKey, body: { name: topic } });
  const members = await call(app, "GET", "/v1/members", { apiKey });
  const invited = await call(app, "POST", "/v1/invitations", {
    ...{ apiKey, body: { email: `${topic}-guest@example.com` } },
  });
  const mails = await call(app, "GET", "/v1/outgoing-mails", { apiKey });
  const account = await call(app, "POST", "/v1/service-accounts", {
    ...{ apiKey, body: { name: `${topic} account` } },
  });
  const role = await call(app, "POST", "/v1/roles", {
    ...{ apiKey, body: { name: `${topic} role`, permissions: ["topic:read"] } },
  });
  return {
    clusterId: cluster.id,
    operationId: operation.id,
    apiKeyId: me.body.api_key.id,
    environmentId: tenant.environment.id,
    organizationId: tenant.organization.id,
    memberId: members.body.items[0].id,
    invitationId: invited.body.id,
    sessionId: await sessionIdOf(app, tenant),
    serviceAccountId: account.body.id,
    mailId: mails.body.items[0].id,
    roleId: role.body.id,
  };
}

test("every route has a case", () => {
  expect(Object.keys(CASES).sort()).toEqual(contracts.map((contract) => contract.name).sort());
});

const WAYS = [
  ["a key over REST", "key", askRoute],
  ["a person over REST", "person", askRoute],
  ["a key over tRPC", "key", askProcedure],
  ["a person over tRPC", "person", askProcedure],
] as const;

describe.each(WAYS)("%s", (_, who, ask) => {
  test.each(contracts)(
    "$name: another tenant's id is one that does not exist",
    async (contract) => {
      const sender = senders[who];
      const theirAnswer = await ask(fixture.app, contract, theirs, sender);
      const absentAnswer = await ask(fixture.app, contract, ABSENT, sender);
      const kind = CASES[contract.name]?.kind;
      if (kind === "by_id" || kind === "in_body") {
        if (theirAnswer.status === 200) {
          // A tRPC stream has begun before it knows: its error comes as an event.
          expect(contract.stream).toBeDefined();
          expect(theirAnswer.body).toContain("not_found");
        } else {
          expect(theirAnswer.status).toBe(404);
          expect(codeOf(theirAnswer)).toBe("not_found");
        }
      }
      if (kind === "list") expect(theirAnswer.status).toBe(200);
      expect(withoutIds(theirAnswer)).toEqual(withoutIds(absentAnswer));
      assertNothingOfTheirs(theirAnswer);
    },
  );
});

describe.each([
  ["REST", askRoute],
  ["tRPC", askProcedure],
] as const)("a platform operator without an impersonation, over %s", (_, ask) => {
  test.each(contracts)("$name: nothing exists", async (contract) => {
    const answer = await ask(fixture.app, contract, ours, operator);
    if (answer.status === 200) {
      // A tRPC stream has begun before it knows: its error comes as an event.
      expect(contract.stream).toBeDefined();
      expect(answer.body).toContain("not_found");
    } else {
      expect(answer.status).toBe(404);
      expect(codeOf(answer)).toBe("not_found");
    }
    assertNothingOfTheirs(answer);
  });
});

/** Ids of the other tenant stand in an answer only where it repeats the question. */
function assertNothingOfTheirs(answer: Answer): void {
  const problem = answer.body?.error?.json?.data?.problem ?? answer.body;
  const repeated = [problem?.detail, problem?.instance, answer.body?.error?.json?.message];
  let text = JSON.stringify(answer.body) ?? "";
  for (const part of repeated) {
    if (typeof part === "string") text = text.replaceAll(JSON.stringify(part).slice(1, -1), "");
  }
  if (typeof answer.body === "string") text = text.replaceAll(/data: .*not_found.*/g, "");
  for (const secret of Object.values(theirs)) expect(text).not.toContain(`"${secret}"`);
}

function codeOf(answer: Answer): string | undefined {
  return answer.body.error?.json.data.problem.code ?? answer.body.code;
}

test("thousands of random calls of both tenants never show the other's ids", async () => {
  const { app } = fixture;
  const sides = [
    { own: ours, foreign: theirs, sender: { authorization: `Bearer ${fixture.ours.apiKey}` } },
    { own: theirs, foreign: ours, sender: { authorization: `Bearer ${fixture.theirs.apiKey}` } },
  ];
  // The audit log shows what a tenant asked for in vain, ids of others included.
  const reads = contracts.filter(
    ({ method, stream, tag }) => method === "GET" && stream === undefined && tag !== "Audit",
  );
  const random = randomFrom(20_261_123);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  let found = 0;
  for (let round = 0; round < RANDOM_CALLS / 20; round += 1) {
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        const { own, foreign, sender } = pick(sides);
        const sent = Object.fromEntries(
          Object.keys(own).map((name) => [name, pick([own, foreign])[name as keyof Ids]]),
        ) as unknown as Ids;
        const answer = await pick([askRoute, askProcedure])(app, pick(reads), sent, sender);
        if (answer.status === 200) found += 1;
        // A refusal may repeat what was asked for; what was found may not name the other tenant.
        const text = answer.status === 200 ? JSON.stringify(answer.body) : "";
        for (const id of Object.values(foreign)) expect(text).not.toContain(id);
      }),
    );
  }
  expect(found).toBeGreaterThan(RANDOM_CALLS / 10);
}, 300_000);

/** Park and Miller's generator: the same calls in every run. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

test("nothing of the other tenant has changed", async () => {
  const { app } = fixture;
  const { apiKey } = fixture.theirs;
  const cluster = await call(app, "GET", `/v1/clusters/${theirs.clusterId}`, { apiKey });
  expect(cluster.body.status.phase).toBe("RUNNING");
  const topics = await call(app, "GET", `/v1/clusters/${theirs.clusterId}/topics`, { apiKey });
  expect(topics.body.items.map((topic: { name: string }) => topic.name)).toEqual(["secret"]);
  const history = `/v1/clusters/${theirs.clusterId}/tuning/history`;
  expect((await call(app, "GET", history, { apiKey })).body.items).toEqual([]);
  // The random mix reads what is each tenant's own; nobody has written.
  expect(fixture.records.asked.filter(({ method }) => method !== "GET")).toEqual([]);
});

test("the header that names a tenant opens only those the person belongs to", async () => {
  const { app, ours } = fixture;
  const { cookie } = await sessionOf(app, ours);
  const own = { cookie, "millrace-organization": ours.organization.id };
  expect((await call(app, "GET", "/v1/me", { headers: own })).status).toBe(200);
  const foreign = { cookie, "millrace-organization": theirs.organizationId };
  expect((await call(app, "GET", "/v1/me", { headers: foreign })).status).toBe(404);
});

test("a page token of one tenant opens nothing of another, nor of another list", async () => {
  const { app, db, ours } = fixture;
  await runningCluster(db, fixture.theirs, "another");
  const first = await call(app, "GET", "/v1/clusters?page_size=1", {
    apiKey: fixture.theirs.apiKey,
  });
  const token = first.body.next_page_token;
  expect(token).toBeDefined();
  for (const [path, apiKey] of [
    [`/v1/clusters?page_token=${token}`, ours.apiKey],
    [`/v1/operations?page_token=${token}`, fixture.theirs.apiKey],
    [`/v1/clusters?page_token=${token.slice(0, -2)}AA`, fixture.theirs.apiKey],
    [
      `/v1/clusters?page_token=${token}&environment_id=${theirs.environmentId}`,
      fixture.theirs.apiKey,
    ],
  ] as const) {
    const answer = await call(app, "GET", path, { apiKey });
    expect(answer.status).toBe(400);
    expect(answer.body.code).toBe("invalid_page_token");
  }
});

/** What an answer says, apart from ids, times, secrets and the request's own name. */
function withoutIds(answer: Answer): unknown {
  const text = JSON.stringify({ status: answer.status, body: answer.body })
    .replaceAll(/[a-z]{2,3}_[0-9A-HJKMNP-TV-Z]{26}/g, "ID")
    .replaceAll(/mr[ki]_[A-Za-z0-9_-]{6,43}/g, "SECRET")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME");
  const parsed = JSON.parse(text);
  // Both calls of a route that makes or uses things of our own may differ in how many there are.
  if (Array.isArray(parsed.body?.items)) parsed.body.items = parsed.body.items.length;
  return parsed;
}

test("an impersonation that writes needs the installation's consent", async () => {
  const { cookie } = await platformOperator(fixture);
  const refused = await impersonate(fixture, { cookie }, { write: true });
  expect(refused.status).toBe(403);
  expect(refused.body.detail).toBe(
    "Write access is turned off for impersonations in this installation.",
  );
  expect(refused.body.remedy).toContain("MILLRACE_IMPERSONATION_WRITE=1");
});

test("an impersonation loses its write access when the installation turns it off", async () => {
  const { cookie } = await platformOperator(fixture);
  expect((await impersonate(fixture, { cookie })).status).toBe(201);
  // As one that began while it was on.
  await runSql(fixture.ownerUrl, "UPDATE impersonation SET may_write = true");
  const headers = { cookie, origin: CONSOLE_URL };
  const me = await call(fixture.app, "GET", "/v1/me", { headers });
  expect(me.body.impersonation.write).toBe(false);
  const path = `/v1/clusters/${ours.clusterId}/tuning`;
  const body = { block_cache_bytes: 64 * 1024 ** 2 };
  const tuned = await call(fixture.app, "PATCH", path, { headers, body });
  expect(tuned.body).toMatchObject({
    ...{ status: 403, remedy: "Begin an impersonation with write access." },
  });
});
