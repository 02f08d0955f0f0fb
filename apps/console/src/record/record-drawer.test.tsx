import type { KafkaRecord } from "@millrace/contract";
import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { bytesOf, recordOf } from "./record.fixture.ts";
import { RecordDetail } from "./record-drawer.tsx";

const ADDRESS = { clusterId: "clu_test", topic: "orders" };

function detail(change: Partial<KafkaRecord>): string {
  return new FakeApi().render(
    <RecordDetail address={ADDRESS} record={recordOf(change)} onCopy={() => undefined} />,
  );
}

function part(html: string, title: "Key" | "Value" | "Headers"): string {
  return new RegExp(`<section aria-label="${title}">.*?</section>`, "s").exec(html)?.[0] ?? "";
}

test("JSON is indented, with every digit of its numbers", () => {
  const value = part(detail({}), "Value");
  expect(value).toContain("{\n  &quot;id&quot;: 9007199254740993,\n");
  for (const view of ["JSON", "Text", "Hex"]) expect(value).toContain(`>${view}</span>`);
  expect(value).toContain('aria-label="Copy value"');
});

test("text that is no JSON has no JSON view, and markup stays text", () => {
  const value = part(detail({ value: bytesOf("<script>alert(1)</script>") }), "Value");
  expect(value).toContain("&lt;script&gt;alert(1)&lt;/script&gt;");
  expect(value).not.toContain(">JSON</span>");
});

test("bytes that are no text are shown in hex", () => {
  const bytes = { encoding: "base64", data: "/wAB", bytes: 3, truncated: false } as const;
  const value = part(detail({ value: bytes }), "Value");
  expect(value).toContain("000000  ff 00 01");
  expect(value).toContain(">Base64</span>");
  expect(value).not.toContain(">Text</span>");
});

test("no key, no value and an empty value are three things", () => {
  expect(part(detail({ key: null }), "Key")).toContain("The record has no key.");
  expect(part(detail({ value: null, tombstone: true }), "Value")).toContain("data-tombstone");
  expect(part(detail({ value: bytesOf("") }), "Value")).toContain("Empty: 0 bytes.");
});

test("a value that was cut can be loaded whole", () => {
  const html = detail({ value: { ...bytesOf("beginning"), bytes: 3_000_000, truncated: true } });
  expect(html).toContain("The first part of 2.86 MiB is shown.");
  expect(html).toContain("Load all");
  expect(detail({})).not.toContain("Load all");
});

test("headers keep their order and repetitions, and null is not empty", () => {
  const headers = [
    { name: "b", value: bytesOf("1") },
    { name: "a", value: null },
    { name: "b", value: bytesOf("2") },
  ];
  const section = part(detail({ headers }), "Headers");
  const cells = [...section.matchAll(/<td[^>]*>(.*?)<\/td>/g)].map(([, cell = ""]) =>
    cell.replaceAll(/<[^>]+>/g, ""),
  );
  expect(cells.filter((cell) => cell !== "")).toEqual(["b", "1", "a", "null", "b", "2"]);
});

test("a timestamp says who set it", () => {
  expect(detail({})).toContain("1764000000123 ms, set by the producer");
  expect(detail({ timestamp_type: "log_append_time" })).toContain("set by the broker");
});

test("a record that was cut is copied when it is loaded, and says so", () => {
  const cut = detail({ key: { ...bytesOf("beginning"), bytes: 3_000, truncated: true } });
  expect(cut).toContain("Load all of the record to copy it.");
  expect(cut).toMatch(/<button[^>]*disabled[^>]*>(?:<span[^>]*>)*Produce a copy…/);
  expect(cut).toContain("Load all</span>");
  expect(detail({})).not.toMatch(/<button[^>]*disabled/);
});

test("a small record that is nested without end is text", () => {
  const value = part(detail({ value: bytesOf("[".repeat(32_000) + "]".repeat(32_000)) }), "Value");
  expect(value).not.toContain(">JSON</span>");
  expect(value).toContain("[[[[");
});
