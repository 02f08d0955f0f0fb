import { bytes } from "../format/quantity.ts";
import { duration } from "../format/time.ts";

/** What Kafka writes where a topic's setting has no bound: -1, or the largest 64-bit number. */
const UNLIMITED = ["-1", "9223372036854775807"];

/** A setting's number as people read it: `7 days`, `1 MiB`, `unlimited`. Undefined of any other value. */
export function settingWords(name: string, value: string | null): string | undefined {
  if (value === null || !/^-?\d+$/.test(value)) return undefined;
  const isTime = name.endsWith(".ms");
  if (!isTime && !name.endsWith(".bytes")) return undefined;
  if (UNLIMITED.includes(value)) return "unlimited";
  const amount = Number(value);
  if (isTime) return amount < 1_000 ? undefined : duration(amount / 1_000);
  return amount < 1_024 ? undefined : bytes(amount);
}

/** Values of the settings that take one of a few. */
export const SETTING_CHOICES: Readonly<Record<string, readonly string[]>> = {
  "cleanup.policy": ["delete", "compact", "compact,delete"],
  "compression.type": ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"],
  "message.timestamp.type": ["CreateTime", "LogAppendTime"],
};

/** What somebody has to know of a value before it is saved. */
export function settingNote(name: string, value: string): string | undefined {
  if (name !== "cleanup.policy" || !value.includes("compact")) return undefined;
  return "Only the last record of each key is kept. Records without a key are rejected. Compaction cannot be undone.";
}
