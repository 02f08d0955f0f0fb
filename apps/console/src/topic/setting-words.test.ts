import { expect, test } from "vitest";
import { settingNote, settingWords } from "./setting-words.ts";

test.each([
  ["retention.ms", "604800000", "7 days"],
  ["retention.ms", "-1", "unlimited"],
  ["retention.bytes", "-1", "unlimited"],
  ["flush.ms", "9223372036854775807", "unlimited"],
  ["max.message.bytes", "1048576", "1 MiB"],
  ["delete.retention.ms", "0", undefined],
  ["min.insync.replicas", "1", undefined],
  ["cleanup.policy", "delete", undefined],
  ["retention.ms", null, undefined],
])("%s %s reads %s", (name, value, words) => {
  expect(settingWords(name, value)).toBe(words);
});

test("who chooses compaction is warned of what it does", () => {
  expect(settingNote("cleanup.policy", "compact,delete")).toContain("last record of each key");
  expect(settingNote("cleanup.policy", "delete")).toBeUndefined();
  expect(settingNote("compression.type", "compact")).toBeUndefined();
});
