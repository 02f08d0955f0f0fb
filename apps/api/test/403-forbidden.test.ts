import { contracts } from "@millrace/contract";
import { allows, ROLES, type Role } from "@millrace/domain";
import { setUp } from "@millrace/testkit";
import { describe, expect, test } from "vitest";
import { ABSENT, askProcedure, askRoute, type Sender } from "./every-contract.ts";
import {
  type Answer,
  apiFixture,
  CONSOLE_URL,
  call,
  impersonate,
  keyOfRole,
  personOfRole,
  platformOperator,
  sessionOf,
} from "./fixture.ts";

const fixture = apiFixture({ impersonationMayWrite: true });
/** Headers by which a key, or a person, of each role is known. */
const senders = { key: new Map<Role, Sender>(), person: new Map<Role, Sender>() };

setUp(async () => {
  for (const role of ROLES) {
    const apiKey = await keyOfRole(fixture.db, fixture.ours, role);
    senders.key.set(role, { authorization: `Bearer ${apiKey}` });
    senders.person.set(role, await personOfRole(fixture, role));
  }
});

const WAYS = [
  ["a key over REST", "key", askRoute],
  ["a person over REST", "person", askRoute],
  ["a key over tRPC", "key", askProcedure],
  ["a person over tRPC", "person", askProcedure],
] as const;

describe.each(WAYS)("%s", (_, who, ask) => {
  describe.each(contracts)("$name", (contract) => {
    test.each(ROLES)("role %s is refused exactly where it lacks the permission", async (role) => {
      const answer = await ask(fixture.app, contract, ABSENT, senders[who].get(role) ?? {});
      expect(isForbidden(answer)).toBe(!allows(role, contract.permission));
    });
  });
});

/** What impersonations may do besides reading, where they have write access. */
const IMPERSONATED_WRITES = [
  "benchmark.run",
  "operation.approve",
  "operation.cancel",
  "operation.retry",
  "quota.delete",
  "quota.set",
  "tuning.update",
  "tuning.revert",
];
/** Reads that no impersonation may do. */
const WITHHELD_READS = ["outgoingMail.list", "record.list", "record.stream"];

describe.each<[string, readonly string[]]>([
  ["reads", []],
  ["writes", IMPERSONATED_WRITES],
])("an impersonation of an owner that %s", (_, writes) => {
  const write = writes.length > 0;
  let operator: Sender;
  setUp(async () => {
    const { cookie } = await platformOperator(fixture);
    expect((await impersonate(fixture, { cookie }, { write })).status).toBe(201);
    operator = { cookie };
  });

  test.each(contracts)(
    "$name: is refused exactly what outlasts it, or is not its own",
    async (contract) => {
      const answer = await askRoute(fixture.app, contract, ABSENT, operator);
      const isRead =
        contract.permission.endsWith(":read") && !WITHHELD_READS.includes(contract.name);
      expect(isForbidden(answer)).toBe(!isRead && !writes.includes(contract.name));
    },
  );
});

function isForbidden({ status, body }: Answer): boolean {
  // A tRPC stream has begun before it knows: its error comes as an event.
  const code = body?.error?.json.data.problem.code ?? body?.code;
  const found = code === "forbidden" || String(body).includes('"code":"forbidden"');
  if (found && status !== 200) expect(status).toBe(403);
  return found;
}

test("a role that may not write is refused even with a good request", async () => {
  const answer = await call(fixture.app, "POST", "/v1/clusters", {
    apiKey: keyOf("developer"),
    body: { name: "mine" },
  });
  expect(answer.status).toBe(403);
  expect(answer.body.code).toBe("forbidden");
});

test("nobody makes a key that can do more than they can", async () => {
  const body = { name: "up", role: "owner" };
  const apiKey = keyOf("admin");
  const answer = await call(fixture.app, "POST", "/v1/api-keys", { apiKey, body });
  expect(answer.status).toBe(403);
});

test("nobody revokes a key that can do more than they can", async () => {
  const { app, ours } = fixture;
  const me = await call(app, "GET", "/v1/me", { apiKey: ours.apiKey });
  const path = `/v1/api-keys/${me.body.api_key.id}`;
  const answer = await call(app, "DELETE", path, { apiKey: keyOf("admin") });
  expect(answer.status).toBe(403);
  expect(answer.body.detail).toBe("The role admin cannot revoke a key with the role owner.");
  expect((await call(app, "GET", "/v1/me", { apiKey: ours.apiKey })).status).toBe(200);
});

test("a key that nobody gave a role has the least", async () => {
  const body = { name: "plain" };
  const made = await call(fixture.app, "POST", "/v1/api-keys", {
    ...{ apiKey: fixture.ours.apiKey, body },
  });
  expect(made.body.role).toBe("viewer");
});

test("a foreign page cannot use a person's session to change things", async () => {
  const { app, ours } = fixture;
  const { cookie } = await sessionOf(app, ours);
  const post = (origin: string, path: string, body: object) =>
    call(app, "POST", path, { headers: { cookie, origin }, body });
  const foreign = "https://elsewhere.example";
  expect((await post(foreign, "/v1/api-keys", { name: "n" })).status).toBe(403);
  expect((await post(foreign, "/trpc/apiKey.create", { json: { name: "n" } })).status).toBe(403);
  expect((await post("null", "/v1/api-keys", { name: "n" })).status).toBe(403);
  expect((await post(CONSOLE_URL, "/v1/api-keys", { name: "n" })).status).toBe(201);
});

function keyOf(role: Role): string {
  return senders.key.get(role)?.authorization?.replace("Bearer ", "") ?? "";
}
