import {
  CLIENT_ID_MAX,
  KAFKA_USER_NAME_MAX,
  QUOTA_DEFAULT,
  QUOTA_PERCENTAGE_MAX,
  QUOTA_RATE_MAX,
} from "@millrace/domain";
import { z } from "zod";
import { plainText } from "../field.ts";

/** Whose quota: at least one of them. */
export const quotaEntity = {
  user: plainText
    .min(1)
    .max(KAFKA_USER_NAME_MAX)
    .optional()
    .meta({ description: `${QUOTA_DEFAULT}: every user without a quota of its own` }),
  client_id: plainText
    .min(1)
    .max(CLIENT_ID_MAX)
    .optional()
    .meta({ description: `${QUOTA_DEFAULT}: every client ID without a quota of its own` }),
} as const;

/** Whole bytes: Kafka has no fractions of them. */
const byteRate = z.int().positive().max(QUOTA_RATE_MAX);

export const quotaLimits = {
  producer_byte_rate: byteRate
    .nullable()
    .meta({ description: "Bytes per second that clients write" }),
  consumer_byte_rate: byteRate
    .nullable()
    .meta({ description: "Bytes per second that clients read" }),
  request_percentage: z
    .number()
    .positive()
    .max(QUOTA_PERCENTAGE_MAX)
    .nullable()
    .meta({ description: "Percent of one processor's time" }),
  controller_mutation_rate: z
    .number()
    .positive()
    .max(QUOTA_RATE_MAX)
    .nullable()
    .meta({ description: "Partitions per second that clients create or delete" }),
} as const;

export const ClientQuota = z
  .object({
    user: z.string().nullable(),
    client_id: z.string().nullable(),
    ...quotaLimits,
  })
  .meta({ id: "ClientQuota" });
export type ClientQuota = z.infer<typeof ClientQuota>;
