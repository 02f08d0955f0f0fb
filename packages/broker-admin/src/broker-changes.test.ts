/** What the control plane manages over the admin HTTP: settings, users, ACLs and quotas. */
import { pbkdf2Sync } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Acl } from "@millrace/domain";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BrokerHttp } from "./broker-http.ts";

let server: Server;
let broker: BrokerHttp;
/** What was asked: `METHOD path`, and the body. */
let asked: [string, unknown][];
let answer: { readonly status: number; readonly body?: unknown };

beforeEach(async () => {
  asked = [];
  answer = { status: 204 };
  server = createServer(async (request, response) => {
    const body = await text(request);
    asked.push([`${request.method} ${request.url}`, body === "" ? undefined : JSON.parse(body)]);
    expect(request.headers.authorization).toBe("Bearer secret");
    response.writeHead(answer.status);
    response.end(answer.body === undefined ? undefined : JSON.stringify(answer.body));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  broker = new BrokerHttp({ adminUrl: `http://127.0.0.1:${port}`, adminToken: "secret" });
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

function refuse(status: number, code: string, message: string): void {
  answer = { status, body: { error: { code, message } } };
}

test("settings are set in one request, or none is made", async () => {
  await broker.changeSettings({ set: { a: "1", b: "2" } });
  await broker.changeSettings({ set: { a: "3" }, validateOnly: true });
  await broker.changeSettings({ set: {} });
  expect(asked).toEqual([
    ["PATCH /v1/config", { set: { a: "1", b: "2" }, validate_only: false }],
    ["PATCH /v1/config", { set: { a: "3" }, validate_only: true }],
  ]);
  refuse(400, "INVALID_CONFIG", "a: 3 is above the most of 2");
  await expect(broker.changeSettings({ set: { a: "3" } })).rejects.toMatchObject({
    code: "invalid_config",
    kafkaError: "INVALID_CONFIG",
    said: "a: 3 is above the most of 2",
    retryable: false,
  });
});

test.each([
  [503, "KAFKA_STORAGE_ERROR", "temporarily_failed", true],
  [503, "BROKER_NOT_AVAILABLE", "not_ready", true],
  [503, "REQUEST_TIMED_OUT", "timeout", true],
  [409, "SECURITY_DISABLED", "authorization_off", false],
  [404, "RESOURCE_NOT_FOUND", "user_not_found", false],
  [400, "UNACCEPTABLE_CREDENTIAL", "invalid_user", false],
  [400, "POLICY_VIOLATION", "invalid_request", false],
  [413, "REQUEST_TOO_LARGE", "request_too_large", false],
  [500, "UNKNOWN_SERVER_ERROR", "refused", false],
])("a refusal with %i %s is %s", async (status, name, code, retryable) => {
  refuse(status, name, "why");
  await expect(broker.listAcls()).rejects.toMatchObject({
    ...{ code, retryable, kafkaError: name, said: "why" },
  });
});

test("a broker without the route is of another version", async () => {
  answer = { status: 405 };
  await expect(broker.changeSettings({ set: { a: "1" } })).rejects.toMatchObject({
    code: "unsupported",
  });
});

test("users have the mechanisms that are known here", async () => {
  const credentials = [{ mechanism: "SCRAM-SHA-512", iterations: 1 }, { mechanism: "SCRAM-X" }];
  const alice = { name: "alice / ä", mechanisms: ["SCRAM-SHA-512"] };
  answer = { status: 200, body: { users: [{ name: "alice / ä", credentials }] } };
  expect(await broker.listUsers()).toEqual([alice]);
  answer = { status: 200, body: { name: "alice / ä", credentials } };
  expect(await broker.describeUser("alice / ä")).toEqual(alice);
  expect(asked.map(([path]) => path)).toEqual([
    "GET /v1/users",
    "GET /v1/users/alice%20%2F%20%C3%A4",
  ]);
});

test("a password leaves salted and hashed, for each mechanism with a salt of its own", async () => {
  await broker.putPassword("alice", "her password", ["SCRAM-SHA-256", "SCRAM-SHA-512"]);
  const [[path, body] = []] = asked;
  expect(path).toBe("PATCH /v1/users/alice");
  expect(JSON.stringify(body)).not.toContain("her password");
  const { put } = body as { put: Record<string, string | number>[] };
  const salts = put.map(({ salt }) => Buffer.from(String(salt), "base64"));
  expect(put).toEqual(
    (["sha256", "sha512"] as const).map((digest, index) => {
      const salt = salts[index] ?? Buffer.alloc(0);
      const bytes = digest === "sha256" ? 32 : 64;
      const salted = pbkdf2Sync("her password", salt, 8_192, bytes, digest);
      return {
        mechanism: index === 0 ? "SCRAM-SHA-256" : "SCRAM-SHA-512",
        ...{ iterations: 8_192, salt: salt.toString("base64") },
        salted_password: salted.toString("base64"),
      };
    }),
  );
  expect(salts[0]?.equals(salts[1] ?? Buffer.alloc(0))).toBe(false);
  asked = [];
  await broker.removeCredentials("alice", ["SCRAM-SHA-256"]);
  expect(asked).toEqual([["PATCH /v1/users/alice", { remove: ["SCRAM-SHA-256"] }]]);
});

const RULE: Acl = {
  principal: "User:a&b",
  resourceType: "transactional_id",
  resourceName: "orders",
  patternType: "prefixed",
  operation: "two_phase_commit",
  permission: "deny",
  host: "*",
};
const WRITTEN = {
  principal: "User:a&b",
  resource_type: "transactional_id",
  resource_name: "orders",
  pattern_type: "prefixed",
  operation: "two_phase_commit",
  permission: "deny",
  host: "*",
};

test("ACLs are found by a filter, created in one request, and deleted one by one", async () => {
  await broker.createAcls([RULE]);
  await broker.createAcls([]);
  answer = { status: 200, body: { acls: [WRITTEN] } };
  expect(await broker.listAcls()).toEqual([RULE]);
  expect(await broker.listAcls({ resourceName: "orders", patternType: "match" })).toEqual([RULE]);
  answer = { status: 200, body: { deleted: true } };
  expect(await broker.deleteAcl(RULE)).toBe(true);
  answer = { status: 200, body: { deleted: false } };
  expect(await broker.deleteAcl(RULE)).toBe(false);
  const query = new URLSearchParams(WRITTEN);
  expect(asked).toEqual([
    ["POST /v1/acls", { acls: [WRITTEN] }],
    ["GET /v1/acls", undefined],
    ["GET /v1/acls?resource_name=orders&pattern_type=match", undefined],
    [`DELETE /v1/acls?${query}`, undefined],
    [`DELETE /v1/acls?${query}`, undefined],
  ]);
});

test("an ACL of a kind that is unknown here is not shown as another", async () => {
  answer = { status: 200, body: { acls: [{ ...WRITTEN, operation: "fly" }] } };
  await expect(broker.listAcls()).rejects.toMatchObject({ code: "malformed_answer" });
});

test("quotas of users, client ids and their defaults; not of addresses", async () => {
  const user = (name: string | null) => ({ type: "user", name });
  const client = (name: string | null) => ({ type: "client-id", name });
  const limits = { producer_byte_rate: 1_024, connection_creation_rate: 5 };
  answer = {
    status: 200,
    body: {
      quotas: [
        { entity: [client("app"), user("alice")], limits },
        { entity: [user(null)], limits: { request_percentage: 12.5 } },
        { entity: [{ type: "ip", name: "10.0.0.1" }], limits },
      ],
    },
  };
  expect(await broker.listQuotas()).toEqual([
    { user: "alice", clientId: "app", limits: { producer_byte_rate: 1_024 } },
    { user: "<default>", clientId: undefined, limits: { request_percentage: 12.5 } },
  ]);
  answer = { status: 204 };
  asked = [];
  const everybody = { user: "<default>", clientId: "app" };
  await broker.alterQuota(everybody, { producer_byte_rate: 7, consumer_byte_rate: null });
  expect(asked).toEqual([
    [
      "PATCH /v1/client-quotas",
      {
        entity: [user(null), client("app")],
        limits: { producer_byte_rate: 7, consumer_byte_rate: null },
      },
    ],
  ]);
});
