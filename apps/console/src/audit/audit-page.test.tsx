import type { AuditEvent } from "@millrace/contract";
import { beforeEach, expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { AuditPage } from "./audit-page.tsx";
import { EventDetails } from "./audit-table.tsx";

const EVENT: AuditEvent = {
  ...{ id: "aud_1", seq: "7", created_at: "2026-11-23T10:00:00.000Z", method: "cluster.update" },
  impersonator: null,
  actor: { kind: "api_key", id: "key_1", name: "robot" },
  ...{ auth_method: "api_key", client_address: "192.0.2.1", request_id: "req_1" },
  ...{ target_id: "clu_1", result: "failure", error_code: "cluster_busy", hash: "ab".repeat(32) },
  ...{
    request: { name: "b" },
    before: { name: "a", size: "dev" },
    after: { name: "b", size: "dev" },
  },
};
let api: FakeApi;

beforeEach(() => {
  api = new FakeApi();
});

function show(events: AuditEvent[]): string {
  const { trpc, queryClient } = api;
  const key = trpc.auditEvent.list.infiniteQueryKey({ page_size: 50 });
  queryClient.setQueryData(key, { pages: [{ items: events }], pageParams: [null] });
  return api.render(<AuditPage />);
}

test("an event shows who did what to what, from where, and why it failed", () => {
  api.signIn("owner");
  const text = show([EVENT]);
  for (const part of ["robot", "cluster.update", "clu_1", "192.0.2.1", "Failed", "cluster_busy"]) {
    expect(text).toContain(part);
  }
  expect(text).toContain('href="/v1/audit-events/export"');
});

test("details show what changed and what was asked for", () => {
  const text = api.render(<EventDetails event={EVENT} />);
  expect(text).toContain("name: ");
  expect(text).not.toContain("size: ");
  expect(text).toContain("req_1");
  expect(text).toContain("ab".repeat(32));
});

test("an empty log says so, and a role that may not read it is told so", () => {
  api.signIn("admin");
  expect(show([])).toContain("No events");
  api.signIn("developer");
  const text = show([EVENT]);
  expect(text).toContain("Your role does not allow you to read the audit log.");
  expect(text).not.toContain("robot");
});
