import type { Topic } from "@millrace/contract";
import { describe, expect, it } from "vitest";
import {
  newPartitionsError,
  partitionsError,
  settingsOf,
  topicDraftOf,
  topicPatchOf,
  withOverride,
} from "./topic-draft.ts";

const topic: Topic = {
  name: "orders",
  topic_id: null,
  partitions: 4,
  replication_factor: 1,
  configs: {
    "retention.ms": { value: "3600000", source: "topic" },
    "cleanup.policy": { value: "delete", source: "default" },
    "segment.index.bytes": { value: "10485760", source: "default" },
  },
};
const draft = topicDraftOf(topic);
const names = (all: boolean, edited = draft) =>
  settingsOf(topic, edited, all).map(({ name }) => name);

describe("a topic's draft", () => {
  it("shows its own settings first, and the unusual ones when asked for or overridden", () => {
    expect(names(false)).toEqual(["retention.ms", "cleanup.policy"]);
    expect(names(true)).toEqual(["retention.ms", "cleanup.policy", "segment.index.bytes"]);
    const edited = withOverride(draft, "segment.index.bytes", "1");
    expect(names(false, edited)).toContain("segment.index.bytes");
  });

  it("asks for nothing where nothing differs", () => {
    expect(topicPatchOf(topic, draft)).toEqual({});
    expect(topicPatchOf(topic, withOverride(draft, "retention.ms", "3600000"))).toEqual({});
    // What nobody has set is the default already.
    expect(topicPatchOf(topic, withOverride(draft, "cleanup.policy", null))).toEqual({});
    const back = withOverride(withOverride(draft, "retention.ms", "1"), "retention.ms", undefined);
    expect(topicPatchOf(topic, back)).toEqual({});
  });

  it("asks for more partitions, a new value, and the default again", () => {
    const edited = withOverride(
      withOverride({ ...draft, partitions: 6 }, "retention.ms", null),
      "cleanup.policy",
      "compact",
    );
    expect(topicPatchOf(topic, edited)).toEqual({
      partitions: 6,
      configs: { "retention.ms": null, "cleanup.policy": "compact" },
    });
  });

  it("refuses 99999 partitions instead of creating 10000", () => {
    expect(newPartitionsError(99_999)).toBe("Enter 10,000 or fewer");
    expect(newPartitionsError(10_000)).toBeUndefined();
    for (const typed of ["", 0, 1.5, "many"]) expect(newPartitionsError(typed)).toBeDefined();
  });

  it("never has fewer partitions", () => {
    expect(partitionsError(topic, draft)).toBeUndefined();
    expect(partitionsError(topic, { ...draft, partitions: 3 })).toMatch(/4 or more/);
    expect(partitionsError(topic, { ...draft, partitions: "" })).toMatch(/whole number/);
    expect(partitionsError(topic, { ...draft, partitions: 1e9 })).toBe("Enter 10,000 or fewer");
  });
});
