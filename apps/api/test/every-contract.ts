/**
 * How every contract is called with ids of a tenant, over REST and over tRPC. A new contract fails the tests
 * until it has a case here.
 */
import type { Contract } from "@millrace/contract";
import { newId } from "@millrace/domain";
import type { Hono } from "hono";
import superjson from "superjson";
import type { ApiEnv } from "../src/request-context.ts";
import { type Answer, call, hasBody } from "./fixture.ts";

export interface Ids {
  readonly clusterId: string;
  readonly operationId: string;
  readonly apiKeyId: string;
  readonly environmentId: string;
  readonly organizationId: string;
  readonly memberId: string;
  readonly invitationId: string;
  readonly sessionId: string;
  readonly serviceAccountId: string;
  readonly mailId: string;
  readonly roleId: string;
}

export type Case =
  | {
      readonly kind: "by_id";
      readonly path: (ids: Ids) => string;
      readonly body?: object;
      readonly query?: Readonly<Record<string, string>>;
    }
  | { readonly kind: "in_body"; readonly body: (ids: Ids) => object }
  | { readonly kind: "list"; readonly query?: (ids: Ids) => string }
  /** Names no id: the credentials alone decide what is answered. */
  | { readonly kind: "own"; readonly body?: object };

const ACL = {
  principal: "User:mallory",
  resource_type: "topic",
  resource_name: "secret",
  pattern_type: "literal",
  operation: "read",
  permission: "allow",
  host: "*",
};

export const CASES: Record<string, Case> = {
  "cluster.create": {
    kind: "in_body",
    body: (ids) => ({ name: "intruder", environment_id: ids.environmentId }),
  },
  "cluster.list": { kind: "list", query: (ids) => `environment_id=${ids.environmentId}` },
  "cluster.get": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}` },
  "cluster.caCertificate": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/ca-certificate`,
  },
  "cluster.update": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}`,
    body: { deletion_protection: true },
  },
  "cluster.delete": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}` },
  "cluster.pause": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/pause` },
  "cluster.resume": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/resume` },
  "cluster.restart": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/restart` },
  "cluster.brokers": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/brokers` },
  "cluster.recover": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/recover` },
  "cluster.restore": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/restore` },
  "cluster.drift": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/drift` },
  "cluster.checkDrift": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/check-drift`,
  },
  "cluster.reconcile": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/reconcile` },
  "cluster.acceptDrift": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/accept-drift`,
    body: { digest: "0".repeat(64) },
  },
  "operation.list": { kind: "list", query: (ids) => `cluster_id=${ids.clusterId}` },
  "operation.get": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}` },
  "operation.watch": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}/events` },
  "operation.plan": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}/plan` },
  "operation.cancel": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}/cancel` },
  "operation.retry": { kind: "by_id", path: (ids) => `/v1/operations/${ids.operationId}/retry` },
  "operation.approve": {
    kind: "by_id",
    path: (ids) => `/v1/operations/${ids.operationId}/approve`,
    body: { digest: "0".repeat(64) },
  },
  "topic.create": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics`,
    body: { name: "t" },
  },
  "topic.list": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/topics` },
  "topic.get": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret` },
  "topic.update": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret`,
    body: { partitions: 9 },
  },
  "topic.delete": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret` },
  "record.produce": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret/records`,
    body: { records: [{ value: { encoding: "text", data: "intruder" } }] },
  },
  "record.list": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret/records`,
  },
  "record.stream": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/topics/secret/records/stream`,
  },
  "consumerGroup.list": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/consumer-groups`,
  },
  "consumerGroup.get": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/consumer-groups/secret`,
  },
  "user.create": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/users`,
    body: { name: "intruder" },
  },
  "user.list": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/users` },
  "user.get": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/users/secret` },
  "user.update": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/users/secret`,
    body: { mechanisms: ["SCRAM-SHA-512"] },
  },
  "user.rotate": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/users/secret/rotate`,
    body: { password: "a password of the intruder" },
  },
  "user.delete": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/users/secret` },
  "acl.create": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/acls`,
    body: ACL,
  },
  "acl.applyTemplate": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/acls/apply-template`,
    body: { template: "producer", principal: "User:mallory", topic: "secret" },
  },
  "acl.list": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/acls` },
  "acl.test": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/acls/test`,
    query: {
      principal: "User:mallory",
      operation: "read",
      resource_type: "topic",
      resource_name: "secret",
    },
  },
  "acl.delete": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/acls`,
    query: ACL,
  },
  "quota.set": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/quotas`,
    body: { user: "mallory", producer_byte_rate: 1 },
  },
  "quota.list": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/quotas` },
  "quota.delete": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/quotas`,
    query: { user: "mallory" },
  },
  "quota.usage": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/quota-usage` },
  "metrics.export": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/metrics/export`,
  },
  "metrics.prometheus": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/prometheus`,
  },
  "clientMetrics.list": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/client-metrics`,
  },
  "catchUp.get": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/catch-up` },
  "tuning.get": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/tuning` },
  "tuning.update": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/tuning`,
    body: { prefetch_max_bytes: 1_048_576 },
  },
  "tuning.history": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/tuning/history`,
  },
  "tuning.revert": {
    kind: "by_id",
    path: (ids) =>
      `/v1/clusters/${ids.clusterId}/tuning/changes/tch_00000000000000000000000000/revert`,
  },
  "metrics.query": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/metrics` },
  "benchmark.run": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/benchmarks` },
  "benchmark.list": { kind: "by_id", path: (ids) => `/v1/clusters/${ids.clusterId}/benchmarks` },
  "benchmark.get": {
    kind: "by_id",
    path: (ids) => `/v1/clusters/${ids.clusterId}/benchmarks/${newId("bmk")}`,
  },
  // Taken by us: what is in the way is told, and must be our own.
  "environment.create": { kind: "own", body: { name: "default" } },
  "environment.list": { kind: "list" },
  "environment.get": { kind: "by_id", path: (ids) => `/v1/environments/${ids.environmentId}` },
  "environment.update": {
    kind: "by_id",
    path: (ids) => `/v1/environments/${ids.environmentId}`,
    body: { name: "taken over" },
  },
  "environment.delete": { kind: "by_id", path: (ids) => `/v1/environments/${ids.environmentId}` },
  "apiKey.create": { kind: "own" },
  "apiKey.list": {
    kind: "list",
    query: (ids) => `service_account_id=${ids.serviceAccountId}`,
  },
  "apiKey.get": { kind: "by_id", path: (ids) => `/v1/api-keys/${ids.apiKeyId}` },
  "apiKey.rotate": { kind: "by_id", path: (ids) => `/v1/api-keys/${ids.apiKeyId}/rotate` },
  "apiKey.delete": { kind: "by_id", path: (ids) => `/v1/api-keys/${ids.apiKeyId}` },
  // Taken by us, as above.
  "serviceAccount.create": { kind: "own", body: { name: "own account" } },
  "serviceAccount.list": { kind: "list" },
  "serviceAccount.get": {
    kind: "by_id",
    path: (ids) => `/v1/service-accounts/${ids.serviceAccountId}`,
  },
  "serviceAccount.update": {
    kind: "by_id",
    path: (ids) => `/v1/service-accounts/${ids.serviceAccountId}`,
    body: { description: "taken over" },
  },
  "serviceAccount.delete": {
    kind: "by_id",
    path: (ids) => `/v1/service-accounts/${ids.serviceAccountId}`,
  },
  "serviceAccountKey.create": {
    kind: "by_id",
    path: (ids) => `/v1/service-accounts/${ids.serviceAccountId}/keys`,
    body: { name: "intruder" },
  },
  "member.list": { kind: "list" },
  "member.get": { kind: "by_id", path: (ids) => `/v1/members/${ids.memberId}` },
  "member.update": {
    kind: "by_id",
    path: (ids) => `/v1/members/${ids.memberId}`,
    body: { role: "viewer" },
  },
  "member.delete": { kind: "by_id", path: (ids) => `/v1/members/${ids.memberId}` },
  "accessReview.get": { kind: "own" },
  "accessReview.create": { kind: "own", body: { digest: "0".repeat(64) } },
  "accessReview.export": { kind: "own" },
  // Taken by us, as above.
  "role.create": { kind: "own", body: { name: "own role", permissions: ["cluster:read"] } },
  "role.list": { kind: "list" },
  "role.get": { kind: "by_id", path: (ids) => `/v1/roles/${ids.roleId}` },
  "role.update": {
    kind: "by_id",
    path: (ids) => `/v1/roles/${ids.roleId}`,
    body: { description: "taken over" },
  },
  "role.delete": { kind: "by_id", path: (ids) => `/v1/roles/${ids.roleId}` },
  "invitation.create": { kind: "own", body: { email: "guest@example.com" } },
  "invitation.list": { kind: "list" },
  "invitation.get": { kind: "by_id", path: (ids) => `/v1/invitations/${ids.invitationId}` },
  "invitation.delete": { kind: "by_id", path: (ids) => `/v1/invitations/${ids.invitationId}` },
  "outgoingMail.list": { kind: "list" },
  "outgoingMail.open": { kind: "by_id", path: (ids) => `/v1/outgoing-mails/${ids.mailId}/open` },
  "singleSignOn.get": { kind: "own" },
  // Refused before anything is sent: the address is private.
  "singleSignOn.set": {
    kind: "own",
    body: {
      ...{ issuer: "https://127.0.0.1", client_id: "c", client_secret: "s" },
      domains: ["own.example"],
    },
  },
  "singleSignOn.delete": { kind: "own" },
  "session.list": { kind: "own" },
  "session.delete": { kind: "by_id", path: (ids) => `/v1/me/sessions/${ids.sessionId}` },
  "session.deleteOthers": { kind: "own" },
  "account.leave": { kind: "in_body", body: (ids) => ({ organization_id: ids.organizationId }) },
  // What a tenant asked for in vain is in its own log; what another one did is not.
  "auditEvent.list": { kind: "list", query: (ids) => `actor_id=${ids.apiKeyId}` },
  "auditEvent.export": { kind: "list", query: (ids) => `actor_id=${ids.apiKeyId}` },
  "region.list": { kind: "own" },
  "size.list": { kind: "own" },
  "version.list": { kind: "own" },
  "account.me": { kind: "own" },
};

/** Ids that nothing has. */
export const ABSENT: Ids = {
  clusterId: newId("clu"),
  operationId: newId("op"),
  apiKeyId: newId("key"),
  environmentId: newId("env"),
  organizationId: newId("org"),
  memberId: newId("mem"),
  invitationId: newId("inv"),
  sessionId: newId("ses"),
  serviceAccountId: newId("svc"),
  mailId: newId("mai"),
  roleId: newId("rol"),
};

/** Headers by which a person or a program of a tenant is known. */
export type Sender = Readonly<Record<string, string>>;

/** Calls the contract's route with these ids. */
export function askRoute(
  app: Hono<ApiEnv>,
  contract: Contract,
  ids: Ids,
  sender: Sender,
): Promise<Answer> {
  const { path, query, body } = requestOf(contract, ids);
  const options = { headers: sender, ...(body && { body }) };
  return call(app, contract.method, query === "" ? path : `${path}?${query}`, options);
}

/** Calls the contract's procedure with the same input. */
export function askProcedure(
  app: Hono<ApiEnv>,
  contract: Contract,
  ids: Ids,
  sender: Sender,
): Promise<Answer> {
  const { path, query, body } = requestOf(contract, ids);
  const input = superjson.serialize({
    ...paramsOf(contract, path),
    ...Object.fromEntries(new URLSearchParams(query)),
    ...body,
  });
  const url = `/trpc/${contract.name}`;
  if (contract.method !== "GET") return call(app, "POST", url, { headers: sender, body: input });
  const encoded = encodeURIComponent(JSON.stringify(input));
  return call(app, "GET", `${url}?input=${encoded}`, { headers: sender });
}

function requestOf(contract: Contract, ids: Ids): { path: string; query: string; body?: object } {
  const each = CASES[contract.name];
  if (each === undefined) throw new Error(`${contract.name} has no case`);
  const withBody = (body: object) => (hasBody(contract) ? { body } : {});
  switch (each.kind) {
    case "by_id":
      return {
        path: each.path(ids),
        query: new URLSearchParams(each.query).toString(),
        ...withBody(each.body ?? {}),
      };
    case "in_body":
      return { path: contract.path, query: "", body: each.body(ids) };
    case "list":
      return { path: contract.path, query: each.query?.(ids) ?? "" };
    case "own":
      return { path: contract.path, query: "", ...withBody(each.body ?? { name: "own" }) };
  }
}

/** What of the path stands for the contract's parameters. */
function paramsOf(contract: Contract, path: string): Record<string, string> {
  const names = Object.keys(contract.params);
  const pattern = contract.path.replaceAll(/\{\w+\}/g, "([^/]+)");
  const values = new RegExp(`^${pattern}$`).exec(path)?.slice(1) ?? [];
  if (values.length !== names.length) throw new Error(`${path} is no ${contract.path}`);
  return Object.fromEntries(names.map((name, index) => [name, values[index] ?? ""]));
}
