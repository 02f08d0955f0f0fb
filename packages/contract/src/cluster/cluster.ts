import {
  CLUSTER_NAME_PATTERN,
  CLUSTER_PHASES,
  CLUSTER_PROVIDERS,
  CLUSTER_SIZE_NAMES,
  DRIFT_STATUSES,
  REGIONS,
} from "@millrace/domain";
import { z } from "zod";
import { plainText, timestamp } from "../field.ts";
import { ClusterNetwork, ClusterStorage, WalVolume } from "./aws-spec.ts";

/** `DELETED` never leaves the house. */
export const PUBLIC_CLUSTER_PHASES = CLUSTER_PHASES.filter((phase) => phase !== "DELETED");

export const clusterName = z
  .string()
  .regex(
    CLUSTER_NAME_PATTERN,
    "lower-case letters, digits and inner hyphens, beginning with a letter, at most 63",
  );

export const LABELS_MAX = 32;
export const labelName = z.string().regex(/^[a-z][a-z0-9_-]{0,62}$/);
export const labelValue = plainText.max(255);

export const labels = z
  .record(labelName, labelValue)
  .refine((value) => Object.keys(value).length <= LABELS_MAX, {
    error: `at most ${LABELS_MAX} labels`,
  });

export const Condition = z
  .object({
    type: z.string(),
    status: z.enum(["True", "False", "Unknown"]),
    reason: z.string(),
    message: z.string(),
    last_transition_at: timestamp,
  })
  .meta({ id: "Condition" });

const ClusterMetadata = z
  .object({
    id: z.string(),
    created_at: timestamp,
    updated_at: timestamp,
    etag: z.string(),
    revision: z.int().meta({
      description:
        "Counts changes of the spec; observed_revision follows when they took effect. It goes back " +
        "with a change that is rejected or failed before anything was begun: to tell states of a " +
        "cluster apart compare etags",
    }),
    labels: z.record(z.string(), z.string()),
  })
  .meta({ id: "ClusterMetadata" });

const ClusterSpec = z
  .object({
    name: z.string(),
    region: z.enum(REGIONS),
    size: z.enum(CLUSTER_SIZE_NAMES),
    environment_id: z.string(),
    deletion_protection: z.boolean(),
    brokers: z.int(),
    zones: z.int().meta({ description: "Zones that the cluster is spread over" }),
    paused: z.boolean().meta({ description: "No broker is to run; the data is kept" }),
    wal: WalVolume.nullable().meta({ description: "null on this machine" }),
    network: ClusterNetwork.nullable().meta({ description: "null on this machine" }),
    storage: ClusterStorage.nullable().meta({ description: "null on this machine" }),
  })
  .meta({ id: "ClusterSpec" });

const Endpoint = z
  .object({ name: z.string(), bootstrap_servers: z.string() })
  .meta({ id: "Endpoint" });

const ClusterStatus = z
  .object({
    phase: z.enum(PUBLIC_CLUSTER_PHASES),
    provider: z.enum(CLUSTER_PROVIDERS),
    conditions: z.array(Condition),
    endpoints: z.array(Endpoint),
    observed_revision: z.int(),
    purge_at: timestamp.nullable().meta({
      description: "When a deleted cluster's data is purged; until then it can be restored",
    }),
    drift: z.enum(DRIFT_STATUSES),
    estimated_monthly_cost_usd: z
      .number()
      .meta({ description: "From list prices and assumed use: an estimate, no offer" }),
    operation_id: z
      .string()
      .optional()
      .meta({ description: "The operation at work on the cluster, or the last one that was" }),
  })
  .meta({ id: "ClusterStatus" });

const fields = { metadata: ClusterMetadata, spec: ClusterSpec, status: ClusterStatus };

export const Cluster = z.object(fields).meta({ id: "Cluster" });
export type Cluster = z.infer<typeof Cluster>;

/** A cluster and the operation that makes it, or changes it. */
export const ClusterAccepted = z
  .object({ ...fields, operation_id: z.string() })
  .meta({ id: "ClusterAccepted" });
export type ClusterAccepted = z.infer<typeof ClusterAccepted>;
