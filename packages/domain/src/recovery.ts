/** Acknowledged records of one partition that a recovery cannot bring back. Offsets are 64-bit. */
export interface MissingRecords {
  readonly topic: string;
  readonly partition: number;
  readonly fromOffset: string;
  /** Exclusive. */
  readonly toOffset: string;
  /** RFC 3339: by then the last of them had been acknowledged. */
  readonly acknowledgedBy: string;
}

/** What a recovery of a broker brings back, and what is missing: the report of `millrace recover`. */
export interface RecoveryReport {
  /** Whether the write-ahead log is there beside the bucket: with it nothing acknowledged is missing. */
  readonly source: "bucket" | "bucket+wal";
  /** RFC 3339: the metadata comes back as of then. */
  readonly recoveredTo: string;
  readonly topics: number;
  readonly partitions: number;
  /** 64-bit, decimal. */
  readonly recordsFromWal: string;
  readonly bytesFromWal: string;
  /** Ranges, at most `MISSING_SHOWN_MAX`. */
  readonly missing: readonly MissingRecords[];
  /** Partitions with missing records, also those that are not listed. */
  readonly missingPartitions: number;
  readonly warnings: readonly string[];
}

/** Ranges of missing records that a plan lists: a plan is one row of the database. */
export const MISSING_SHOWN_MAX = 500;
