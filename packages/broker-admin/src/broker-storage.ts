import type { BrokerStorage } from "@millrace/domain";
import { z } from "zod";

/** The part of `/v1/status` that tells of the storage engine. */
export const StorageAnswer = z.object({
  uploads_wait_for: z.string().nullable(),
  storage: z
    .object({
      wal_capacity_bytes: z.number(),
      wal_used_bytes: z.number(),
      wal_seconds_left: z.number().optional(),
      upload_pending_bytes: z.number(),
    })
    .nullable(),
});

/** Undefined until the broker serves clients. */
export function storageOf(answer: z.output<typeof StorageAnswer>): BrokerStorage | undefined {
  const { storage, uploads_wait_for } = answer;
  if (storage === null) return undefined;
  return {
    walCapacityBytes: storage.wal_capacity_bytes,
    walUsedBytes: storage.wal_used_bytes,
    walSecondsLeft: storage.wal_seconds_left,
    uploadPendingBytes: storage.upload_pending_bytes,
    uploadsWaitFor: uploads_wait_for ?? undefined,
  };
}
