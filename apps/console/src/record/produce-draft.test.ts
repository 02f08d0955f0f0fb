import { produceRecords } from "@millrace/contract";
import { expect, test } from "vitest";
import {
  copyObstacle,
  draftOfRecord,
  NEW_RECORD,
  type ProduceDraft,
  producedOf,
  produceErrors,
} from "./produce-draft.ts";
import { bytesOf, recordOf } from "./record.fixture.ts";

test.each<[Partial<ProduceDraft>, object]>([
  [{}, { key: null, value: { encoding: "text", data: "" }, headers: [] }],
  [
    { valueKind: "tombstone", keyKind: "text", key: "k" },
    { key: bytes("text", "k"), value: null },
  ],
  [{ valueKind: "json", value: ' {"a": 1}' }, { value: bytes("text", ' {"a": 1}') }],
  [{ valueKind: "hex", value: "00 fF\n01" }, { value: bytes("hex", "00fF01") }],
  [{ valueKind: "base64", value: "AA E=" }, { value: bytes("base64", "AAE=") }],
  [{ partition: "3" }, { partition: 3 }],
  [
    { headers: [{ name: "h", kind: "text", value: "v" }] },
    { headers: [{ name: "h", value: bytes("text", "v") }] },
  ],
])("%j is asked of the API as %j", (change, expected) => {
  const draft = { ...NEW_RECORD, ...change };
  expect(produceErrors(draft)).toEqual({});
  const record = producedOf(draft);
  expect(record).toMatchObject(expected);
  const input = { cluster_id: "clu_test", topic_name: "t", records: [record] };
  expect(produceRecords.input.safeParse(input).error).toBeUndefined();
});

test.each<[Partial<ProduceDraft>, string]>([
  [{ valueKind: "json", value: "{" }, "value"],
  [{ valueKind: "hex", value: "abc" }, "value"],
  [{ valueKind: "base64", value: "AAE" }, "value"],
  [{ keyKind: "hex", key: "zz" }, "key"],
  [{ headers: [{ name: "", kind: "text", value: "v" }] }, "headers"],
  [{ headers: [{ name: "h", kind: "hex", value: "v" }] }, "headers"],
])("%j has an error at its %s", (change, field) => {
  expect(Object.keys(produceErrors({ ...NEW_RECORD, ...change }))).toEqual([field]);
});

test("a copy has key, value and headers of the record, and its key's partition", () => {
  const record = recordOf({ headers: [{ name: "h", value: bytesOf("v") }], partition: 4 });
  expect(draftOfRecord(record)).toEqual({
    partition: "",
    keyKind: "text",
    key: "customer-7",
    valueKind: "text",
    value: '{"id":9007199254740993,"total":12.50}',
    headers: [{ name: "h", kind: "text", value: "v" }],
  });
  expect(draftOfRecord(recordOf({ value: null })).valueKind).toBe("tombstone");
});

test("a copy is the record, also where headers are bytes or null", () => {
  const binary = { encoding: "base64", data: "/wAB", bytes: 3, truncated: false } as const;
  const headers = [
    { name: "binary", value: binary },
    { name: "null", value: null },
    { name: "empty", value: bytesOf("") },
  ];
  const copy = draftOfRecord(recordOf({ key: binary, value: binary, headers }));
  expect(produceErrors(copy)).toEqual({});
  expect(producedOf(copy)).toEqual({
    key: bytes("base64", "/wAB"),
    value: bytes("base64", "/wAB"),
    headers: [
      { name: "binary", value: bytes("base64", "/wAB") },
      { name: "null", value: null },
      { name: "empty", value: bytes("text", "") },
    ],
  });
});

test("half a record is not copied", () => {
  const half = { ...bytesOf("half"), truncated: true };
  for (const change of [
    { value: half },
    { key: half },
    { headers: [{ name: "h", value: half }] },
  ]) {
    expect(copyObstacle(recordOf(change))).toBe("Load all of the record to copy it.");
  }
  expect(copyObstacle(recordOf({ headers_truncated: true }))).toContain("more headers");
  expect(copyObstacle(recordOf())).toBeUndefined();
});

function bytes(encoding: string, data: string) {
  return { encoding, data };
}
