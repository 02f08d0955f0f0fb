import { contracts } from "@millrace/contract";
import { expect, test } from "vitest";
import { ANY_EVENT, auditQueryOf, changedFields, exportHref, KINDS } from "./audit-filter.ts";

const NOW = Date.UTC(2026, 10, 23, 12, 30, 45);

test("a filter asks for what it names, and the export for the same", () => {
  expect(auditQueryOf(ANY_EVENT, NOW)).toEqual({});
  expect(exportHref(ANY_EVENT, NOW)).toBe("/v1/audit-events/export");
  const filter = { kind: "cluster", result: "denied", targetId: " clu_a ", period: "day" } as const;
  const query = {
    ...{ method: "cluster", result: "denied", target_id: "clu_a" },
    from: "2026-11-22T12:30:00.000Z",
  };
  expect(auditQueryOf(filter, NOW)).toEqual(query);
  expect(exportHref(filter, NOW)).toBe(`/v1/audit-events/export?${new URLSearchParams(query)}`);
});

test("every kind of change has a title", () => {
  const changes = contracts.filter(({ method }) => method !== "GET");
  // Impersonations are in the log, but do not begin in the tenant's API.
  const kinds = new Set([...changes.map(({ name }) => name.split(".")[0]), "impersonation"]);
  expect(KINDS.map(({ value }) => value)).toEqual([...kinds].sort());
});

test("only what differs is shown, whatever it is", () => {
  const before = { name: "a", size: "dev", labels: { team: "x" }, gone: 1 };
  const after = { name: "b", size: "dev", labels: { team: "y" }, made: null };
  expect(changedFields(before, after)).toEqual([
    { field: "gone", from: "1", to: "–" },
    { field: "labels", from: '{"team":"x"}', to: '{"team":"y"}' },
    { field: "name", from: "a", to: "b" },
  ]);
  expect(changedFields(null, null)).toEqual([]);
});
