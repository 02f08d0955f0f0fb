import {
  BROKER_LINK_STATES,
  CLUSTER_NAME_PATTERN,
  CLUSTER_PHASES,
  CLUSTER_PROVIDERS,
  CLUSTER_SIZE_NAMES,
  DRIFT_STATUSES,
  ENDPOINT_PROTOCOLS,
  REGIONS,
} from "@millrace/domain";
import { z } from "zod";
import { int64, plainText, timestamp } from "../field.ts";
import { ClusterNetwork, ClusterStorage, WalVolume } from "./aws-spec.ts";

/** `DELETED` is internal. */
export const PUBLIC_CLUSTER_PHASES = CLUSTER_PHASES.filter((phase) => phase !== "DELETED");

export const clusterName = z
  .string()
  .regex(
    CLUSTER_NAME_PATTERN,
    "must be lowercase letters, digits and hyphens, start with a letter, not end with a hyphen, and have at most 63 characters",
  );

export const LABELS_MAX = 32;
export const labelName = z
  .string()
  .regex(
    /^[a-z][a-z0-9_-]{0,62}$/,
    "must be lowercase letters, digits, underscores and hyphens, and start with a letter",
  );
export const labelValue = plainText.max(255);

export const labels = z
  .record(labelName, labelValue)
  .refine((value) => Object.keys(value).length <= LABELS_MAX, {
    error: `must have at most ${LABELS_MAX} labels`,
  });

export const Condition = z
  .object({
    type: z.string(),
    status: z.enum(["True", "False", "Unknown"]),
    reason: z.string(),
    message: z.string(),
    detail: z.string().optional().meta({ description: "The broker's own words" }),
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
        "Counts changes of the spec; observed_revision follows when they took effect. It is " +
        "decremented when a change is rejected or fails before it started: compare etags to tell " +
        "states apart",
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
    plaintext_listener: z.boolean().meta({
      description: "Whether clients may connect without TLS; always true on AWS",
    }),
    brokers: z.int(),
    zones: z.int().meta({ description: "Number of availability zones" }),
    paused: z.boolean().meta({ description: "True: no broker runs, the data is kept" }),
    wal: WalVolume.nullable().meta({ description: "null for the region local" }),
    network: ClusterNetwork.nullable().meta({ description: "null for the region local" }),
    storage: ClusterStorage.nullable().meta({ description: "null for the region local" }),
  })
  .meta({ id: "ClusterSpec" });

const Endpoint = z
  .object({
    name: z.string(),
    protocol: z.enum(ENDPOINT_PROTOCOLS).meta({ description: "Kafka's security.protocol" }),
    bootstrap_servers: z.string(),
  })
  .meta({ id: "Endpoint" });

const BrokerStatus = z
  .object({
    broker_id: z.int().meta({ description: "Kafka's node id" }),
    control_link: z.enum(BROKER_LINK_STATES).meta({
      description:
        "The broker's connection to the control plane. Without it, the broker may still serve Kafka " +
        "clients, but its metrics and settings are not available. never: this broker has not connected so far",
    }),
    since: timestamp.nullable().meta({
      description:
        "connected: when the connection was made; disconnected: when the broker was last heard from; never: null",
    }),
  })
  .meta({ id: "BrokerStatus" });

const ClusterStatus = z
  .object({
    phase: z.enum(PUBLIC_CLUSTER_PHASES),
    provider: z.enum(CLUSTER_PROVIDERS),
    conditions: z.array(Condition),
    endpoints: z.array(Endpoint),
    brokers: z.array(BrokerStatus).meta({ description: "One for each broker, by broker_id" }),
    observed_revision: z.int(),
    purge_at: timestamp.nullable().meta({
      description: "When the data of a deleted cluster is purged; it can be restored until then",
    }),
    drift: z.enum(DRIFT_STATUSES),
    wal_capacity_bytes: int64.meta({
      description: "Capacity of each broker's write-ahead log; a change of the size keeps it",
    }),
    estimated_monthly_cost_usd: z
      .number()
      .meta({ description: "Estimate from list prices and assumed usage" }),
    operation_id: z
      .string()
      .optional()
      .meta({ description: "The running operation, or the last one" }),
  })
  .meta({ id: "ClusterStatus" });

const fields = { metadata: ClusterMetadata, spec: ClusterSpec, status: ClusterStatus };

export const Cluster = z.object(fields).meta({ id: "Cluster" });
export type Cluster = z.infer<typeof Cluster>;

/** A cluster and the operation that creates or changes it. */
export const ClusterAccepted = z
  .object({ ...fields, operation_id: z.string() })
  .meta({ id: "ClusterAccepted" });
export type ClusterAccepted = z.infer<typeof ClusterAccepted>;
