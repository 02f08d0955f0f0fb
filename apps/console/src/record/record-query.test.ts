import { listRecords } from "@millrace/contract";
import { expect, test } from "vitest";
import {
  draftErrors,
  draftOf,
  NEW_DRAFT,
  queryOf,
  type RecordDraft,
  searchOf,
  withinPartitions,
} from "./record-query.ts";

const DRAFTS: readonly RecordDraft[] = [
  NEW_DRAFT,
  { ...NEW_DRAFT, count: "1000", key: "k&=ä", header: "h=v", text: " " },
  { ...NEW_DRAFT, start: "oldest", partition: "12" },
  { ...NEW_DRAFT, start: "offset", offset: "9007199254740993", partition: "0" },
  { ...NEW_DRAFT, start: "time", time: "2026-11-22T10:00" },
];

test.each(DRAFTS)("%j is a question that the API takes, also when it goes on", (draft) => {
  expect(draftErrors(draft)).toEqual({});
  for (const query of [queryOf(draft), queryOf(draft, "cursor")]) {
    const input = { cluster_id: "clu_test", topic_name: "t", ...query };
    expect(listRecords.input.safeParse(input).error).toBeUndefined();
    const starts = ["newest", "offset", "time", "from", "cursor"].filter((name) => name in query);
    expect(starts).toHaveLength(1);
  }
});

test.each(DRAFTS)("%j comes back from the address that it makes", (draft) => {
  expect(draftOf(new URLSearchParams(searchOf(draft)))).toEqual(draft);
});

test("of a topic with more partitions than one request reads, the first ones are read", () => {
  expect(withinPartitions(NEW_DRAFT, 256)).toEqual(NEW_DRAFT);
  const draft = withinPartitions(NEW_DRAFT, 10_000);
  expect(draft.partition.split(",")).toEqual(Array.from({ length: 256 }, (_, n) => String(n)));
  const input = { cluster_id: "clu_test", topic_name: "t", ...queryOf(draft) };
  expect(listRecords.input.safeParse(input).error).toBeUndefined();
  const one = { ...NEW_DRAFT, partition: "9999" };
  expect(withinPartitions(one, 10_000)).toEqual(one);
});

test("an offset keeps its last digit", () => {
  const draft = {
    ...NEW_DRAFT,
    start: "offset",
    offset: "9007199254740993",
    partition: "3",
  } as const;
  expect(queryOf(draft)).toMatchObject({ offset: "9007199254740993", partition: "3" });
});

test("what is missing is said where it is missing", () => {
  expect(Object.keys(draftErrors({ ...NEW_DRAFT, start: "offset" }))).toEqual([
    "offset",
    "partition",
  ]);
  expect(Object.keys(draftErrors({ ...NEW_DRAFT, start: "time" }))).toEqual(["time"]);
});

test.each(["start=middle", "count=7", "partition=x", "start=offset&offset=1", "start=time&time=x"])(
  "an address with %s shows the usual view",
  (search) => {
    expect(draftOf(new URLSearchParams(search))).toEqual(NEW_DRAFT);
  },
);
