import type { KafkaRecord, RecordPage } from "@millrace/contract";

export function bytesOf(data: string): NonNullable<KafkaRecord["value"]> {
  return { encoding: "text", data, bytes: new TextEncoder().encode(data).length, truncated: false };
}

export function recordOf(change: Partial<KafkaRecord> = {}): KafkaRecord {
  return {
    partition: 0,
    offset: "0",
    timestamp_ms: "1764000000123",
    timestamp_type: "create_time",
    key: bytesOf("customer-7"),
    value: bytesOf('{"id":9007199254740993,"total":12.50}'),
    tombstone: false,
    headers: [],
    size_bytes: 47,
    ...change,
  };
}

export function pageOf(records: KafkaRecord[], change: Partial<RecordPage> = {}): RecordPage {
  return {
    records,
    cursor: "cursor",
    end: true,
    scanned_records: records.length,
    scanned_bytes: 100,
    partitions: [
      { partition: 0, earliest_offset: "0", end_offset: "10", next_offset: "10" },
      { partition: 1, earliest_offset: "0", end_offset: "0", next_offset: "0" },
    ],
    ...change,
  };
}
