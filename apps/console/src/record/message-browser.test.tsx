import type { KafkaRecord } from "@millrace/contract";
import type { Role } from "@millrace/domain";
import { beforeEach, expect, test, vi } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { MessageBrowser } from "./message-browser.tsx";
import { bytesOf, pageOf, recordOf } from "./record.fixture.ts";
import { draftOf } from "./record-query.ts";
import { recordsKey } from "./use-records.ts";

let search = "";
vi.mock("next/navigation", () => ({
  useRouter: () => ({ replace: () => undefined }),
  useSearchParams: () => new URLSearchParams(search),
}));

beforeEach(() => {
  search = "";
});

/** The browser of a topic as somebody of that role sees it, after the API has answered. */
function browser(role: Role, page = pageOf([recordOf()]), topic = "orders"): string {
  const api = new FakeApi();
  api.signIn(role);
  const key = recordsKey({ clusterId: "clu_test", topic }, draftOf(new URLSearchParams(search)));
  api.queryClient.setQueryData(key, { pages: [page], pageParams: [undefined] });
  return api.render(<MessageBrowser clusterId="clu_test" topic={topic} partitionCount={3} />);
}

function rowOf(record: Partial<KafkaRecord>): string {
  const html = browser("developer", pageOf([recordOf(record)]));
  return /<tr[^>]*data-record.*?<\/tr>/.exec(html)?.[0] ?? "";
}

test("a record is a row with its place, key, value and size", () => {
  const row = rowOf({ partition: 3, offset: "9007199254740993" });
  for (const part of ["9,007,199,254,740,993", "customer-7", "9007199254740993,", "47 B"]) {
    expect(row).toContain(part);
  }
  expect(row).toMatch(/aria-label="[^"]+, partition 3, offset 9007199254740993"/);
});

test("what is not there is said, and not left blank", () => {
  expect(rowOf({ key: null })).toContain("no key");
  expect(rowOf({ key: bytesOf("") })).toContain("empty");
  expect(rowOf({ value: null, tombstone: true })).toContain("data-tombstone");
});

test("a value of bytes is shown as bytes, one of markup as text", () => {
  const binary = { encoding: "base64", data: "/wAB", bytes: 3, truncated: false } as const;
  expect(rowOf({ value: binary })).toContain("ff 00 01");
  expect(rowOf({ value: bytesOf("<img src=x onerror=alert(1)>") })).toContain("&lt;img src=x");
});

test("who may not read records is told so, and is not shown any", () => {
  const html = browser("viewer");
  expect(html).toContain("No permission to read records");
  expect(html).not.toContain("customer-7");
  expect(html).not.toContain("Live tail");
});

test("a member produces, into topics that are not internal", () => {
  expect(browser("developer")).toContain("Produce record");
  expect(browser("developer", pageOf([]), "__consumer_offsets")).not.toContain("Produce record");
});

test("an empty topic, filters that match nothing and a search that goes on differ", () => {
  expect(browser("developer", pageOf([]))).toContain("No records");
  search = "text=a&start=oldest";
  expect(browser("developer", pageOf([]))).toContain("No matching records");
  const further = browser("developer", pageOf([], { end: false, scanned_records: 12_345 }));
  expect(further).toContain("No match yet");
  expect(further).toContain("12,345 records were scanned");
  expect(further).toContain("Search further");
});

test("the newest records have no next page: later ones are the live tail's", () => {
  const page = pageOf([recordOf()], { end: false });
  expect(browser("developer", page)).not.toContain("Show more");
  search = "start=oldest";
  expect(browser("developer", page)).toContain("Show more");
});

test.each([
  ["", "This topic has no records."],
  ["partition=1", "This partition has no records."],
  ["start=time&time=2026-11-22T10:00:00", "There are no records from here on."],
  ["text=lost", "Change the filters."],
  ["start=offset&partition=1&offset=9&text=lost", "or start at an earlier offset or time."],
])("where nothing was found, the next step fits the search: %j", (given, expected) => {
  search = given;
  expect(browser("developer", pageOf([]))).toContain(expected);
});
