import { CLUSTER_PHASES, CLUSTER_SIZE_NAMES, REGIONS } from "@millrace/domain";
import { z } from "zod";
import { plainText, timestamp } from "../field.ts";

/** `DELETED` never leaves the house. */
export const PUBLIC_CLUSTER_PHASES = CLUSTER_PHASES.filter((phase) => phase !== "DELETED");

export const labels = z
  .record(z.string().regex(/^[a-z][a-z0-9_-]{0,62}$/), plainText.max(255))
  .refine((value) => Object.keys(value).length <= 32, { error: "at most 32 labels" });

export const Condition = z
  .object({
    type: z.string(),
    status: z.enum(["True", "False", "Unknown"]),
    reason: z.string(),
    message: z.string(),
    last_transition_at: timestamp,
  })
  .meta({ id: "Condition" });

export const Cluster = z
  .object({
    metadata: z.object({
      id: z.string(),
      created_at: timestamp,
      updated_at: timestamp,
      etag: z.string(),
      labels: z.record(z.string(), z.string()),
    }),
    spec: z.object({
      name: z.string(),
      region: z.enum(REGIONS),
      size: z.enum(CLUSTER_SIZE_NAMES),
      environment_id: z.string(),
    }),
    status: z.object({
      phase: z.enum(PUBLIC_CLUSTER_PHASES),
      conditions: z.array(Condition),
      endpoints: z.array(z.object({ name: z.string(), bootstrap_servers: z.string() })),
      observed_revision: z.int(),
      /** The operation at work on the cluster, or the last one that was. */
      operation_id: z.string().optional(),
    }),
  })
  .meta({ id: "Cluster" });
export type Cluster = z.infer<typeof Cluster>;
