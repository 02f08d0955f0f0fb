import { expect, test } from "vitest";
import { auditDetail } from "./audit.ts";

test("secrets and customers' records are not kept, whatever they are part of", () => {
  const canary = "canary-of-the-test";
  const detail = auditDetail({
    name: "orders",
    password: canary,
    api: { clientSecret: canary, list: [{ page_token: canary }], "private-key": canary },
    records: [{ value: { data: canary } }, {}],
  });
  expect(JSON.stringify(detail)).not.toContain(canary);
  expect(auditDetail({ records: "a", nested: { records: { a: 1 } } })).toEqual({
    records: "[omitted]",
    nested: { records: "[omitted]" },
  });
  expect(detail).toMatchObject({ name: "orders", password: "[redacted]", records: { count: 2 } });
});

test("a detail has a bound, whatever was sent", () => {
  const long = auditDetail({ text: "x".repeat(1_000_000) });
  expect(JSON.stringify(long).length).toBeLessThan(1_100);
  const wide = auditDetail(
    Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`f${i}`, "y".repeat(999)])),
  );
  expect(Object.keys(wide ?? {})).toEqual(["omitted_bytes"]);
  let deep: object = {};
  for (let depth = 0; depth < 10_000; depth += 1) deep = { deep };
  expect(JSON.stringify(auditDetail(deep)).length).toBeLessThan(200);
  expect(auditDetail({ many: Array.from({ length: 5_000 }, () => 1) })?.many).toHaveLength(50);
});

test("what PostgreSQL's JSON cannot hold is replaced", () => {
  expect(auditDetail({ half: "x\ud800" })).toEqual({ half: "x\ufffd" });
  expect(auditDetail({ "a\u0000": "b\u0000", size: 5n, at: new Date(0) })).toEqual({
    "a\ufffd": "b\ufffd",
    size: "5",
    at: "1970-01-01T00:00:00.000Z",
  });
  expect(auditDetail(undefined)).toBeUndefined();
  expect(auditDetail("text")).toBeUndefined();
});
