import { MISSING_SHOWN_MAX } from "@millrace/domain";
import { z } from "zod";
import { int64, timestamp } from "../field.ts";

const MissingRecords = z
  .object({
    topic: z.string(),
    partition: z.int(),
    from_offset: int64,
    to_offset: int64.meta({ description: "Exclusive" }),
    acknowledged_by: timestamp.meta({
      description: "By then the last of these records had been acknowledged",
    }),
  })
  .meta({ id: "MissingRecords" });

/** What a recovery brings back, and what is missing. */
export const RecoveryReport = z
  .object({
    source: z.enum(["bucket", "bucket+wal"]).meta({
      description:
        "bucket+wal: the write-ahead log is intact, and its records come back too. bucket: only what " +
        "was uploaded comes back. With either, objects that are missing from the bucket are reported " +
        "in missing",
    }),
    recovered_to: timestamp.meta({ description: "The metadata comes back as of this time" }),
    topics: z.int(),
    partitions: z.int(),
    records_from_wal: int64,
    bytes_from_wal: int64,
    missing_partitions: z.int().meta({ description: "Partitions with missing records" }),
    missing: z
      .array(MissingRecords)
      .meta({ description: `The first ${MISSING_SHOWN_MAX} ranges of missing records` }),
    warnings: z.array(z.string()),
  })
  .meta({ id: "RecoveryReport" });
export type RecoveryReport = z.infer<typeof RecoveryReport>;
