import type { AwsSpec } from "./aws-spec.ts";
import { brokerIdsOf } from "./broker-slot.ts";
import { DomainError } from "./error.ts";
import type { ClusterId, EnvironmentId, OperationId, OrganizationId } from "./id.ts";
import type { Region } from "./region.ts";
import type { ClusterSize } from "./size.ts";
import type { Tuning } from "./tuning.ts";

/**
 * Phases of a cluster's life. `UPDATING` is every change of a cluster that exists: of its spec, into
 * a pause and out of it, back from deletion, away from drift. `PAUSED` has no broker and all of its
 * data. `PENDING_PURGE` is deleted for whoever uses it, while its data is kept until `purgeAt` so
 * that it can be restored; its name is free. `DELETED` is internal: the row is kept so that the id is never reused
 * and operations still have a target, but no caller sees a deleted cluster.
 */
export const CLUSTER_PHASES = [
  "PROVISIONING",
  "RUNNING",
  "UPDATING",
  "DEGRADED",
  "PAUSED",
  "FAILED",
  "DELETING",
  "PENDING_PURGE",
  "DELETED",
] as const;
export type ClusterPhase = (typeof CLUSTER_PHASES)[number];

const TRANSITIONS: Record<ClusterPhase, readonly ClusterPhase[]> = {
  PROVISIONING: ["RUNNING", "FAILED", "DELETING"],
  RUNNING: ["UPDATING", "DEGRADED", "DELETING"],
  UPDATING: ["RUNNING", "PAUSED", "DEGRADED", "FAILED", "DELETING", "PENDING_PURGE"],
  DEGRADED: ["RUNNING", "UPDATING", "FAILED", "DELETING"],
  PAUSED: ["UPDATING", "DELETING"],
  FAILED: ["PROVISIONING", "UPDATING", "DELETING"],
  DELETING: ["PENDING_PURGE", "DELETED", "FAILED"],
  PENDING_PURGE: ["UPDATING", "DELETING"],
  DELETED: [],
};

export function canTransition(from: ClusterPhase, to: ClusterPhase): boolean {
  return TRANSITIONS[from].includes(to);
}

/** Phases from which `to` can be reached in one step: the guard of a conditional update. */
export function phasesBefore(to: ClusterPhase): ClusterPhase[] {
  return CLUSTER_PHASES.filter((from) => canTransition(from, to));
}

/**
 * Phases in which a broker is expected to serve, unless the cluster is `paused`: the supervisor
 * keeps it so.
 */
export const SERVING_PHASES = ["RUNNING", "UPDATING", "DEGRADED"] as const satisfies ClusterPhase[];

/** Whether a cluster in this phase is expected to serve, unless it is `paused`. */
export function isServing(phase: ClusterPhase): boolean {
  return (SERVING_PHASES as readonly ClusterPhase[]).includes(phase);
}

/** One observed fact about a cluster, in the shape that Kubernetes made familiar. */
export interface Condition {
  readonly type: "Ready";
  readonly status: "True" | "False" | "Unknown";
  /** CamelCase, stable, for programs. */
  readonly reason: string;
  /** One sentence for people. */
  readonly message: string;
  /** The broker's own words behind the message, where it has any. */
  readonly detail?: string | undefined;
  readonly lastTransitionAt: string;
}

/** Reason of the condition of a broker that no restart helps. */
export const CANNOT_START = "BrokerCannotStart";

/**
 * Where a cluster's brokers listen. Chosen once, then fixed until the cluster is deleted. Of several brokers, these are the
 * ports of the first one; each further broker has the next ones, and `BROKERS_PER_CLUSTER_MAX` ports are held.
 */
export interface Placement {
  /** Name or address of all listeners; `127.0.0.1` for brokers on this machine. */
  readonly host: string;
  /** Port of the listener without TLS. */
  readonly kafkaPort: number;
  /** Port of the listener with TLS and authentication; absent on AWS, where there is none yet. */
  readonly tlsPort?: number | undefined;
  /** Port of the admin HTTP; absent where the broker serves it at a gateway only. */
  readonly adminPort?: number | undefined;
}

/**
 * `unknown` was not looked at, or not since an operation changed a cluster of which something
 * differed; `accepted` differs as somebody has decided that it may.
 */
export const DRIFT_STATUSES = ["unknown", "in_sync", "drifted", "accepted"] as const;
export type DriftStatus = (typeof DRIFT_STATUSES)[number];

/** How what exists differs from what the last operation left. */
export interface ClusterDrift {
  readonly status: DriftStatus;
  readonly checkedAt: Date | undefined;
  /** Names this very difference: the same one found again has the same digest. */
  readonly digest: string | undefined;
  /** The operation whose plan shows the difference; of `unknown`, the one since which nobody looked. */
  readonly operationId: OperationId | undefined;
}

export interface Cluster {
  readonly id: ClusterId;
  readonly organizationId: OrganizationId;
  readonly environmentId: EnvironmentId;
  readonly name: string;
  readonly region: Region;
  readonly size: ClusterSize;
  readonly labels: Readonly<Record<string, string>>;
  readonly tuning: Tuning;
  readonly phase: ClusterPhase;
  readonly conditions: readonly Condition[];
  /** Counts changes of the spec; `observedRevision` follows it when they have taken effect. */
  readonly revision: number;
  readonly observedRevision: number;
  /** Counts writes of the row; the source of the ETag. */
  readonly version: number;
  /** Where the cluster is reached, once reserved. */
  readonly placement: Placement | undefined;
  /** While true, no caller can delete the cluster. */
  readonly deletionProtection: boolean;
  /** Whether clients of a cluster on this machine may connect without TLS; always on AWS. */
  readonly plaintextListener: boolean;
  /** Broker slots, and the zones that they are spread over. */
  readonly brokers: number;
  readonly zones: number;
  readonly aws: AwsSpec | undefined;
  /** Capacity of a local cluster's write-ahead log; undefined on AWS. */
  readonly localWalBytes: number | undefined;
  /** Asked for: no broker is to run. The phase says whether that is so already. */
  readonly paused: boolean;
  /** When the data of a deleted cluster goes; undefined where it is not deleted, or goes at once. */
  readonly purgeAt: Date | undefined;
  /**
   * When a purge began to destroy the data. What is left since is no cluster that could serve, be
   * changed or be brought back, however the purge ended and whatever was tried after it.
   */
  readonly dataDestroyedAt: Date | undefined;
  readonly drift: ClusterDrift;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly deletedAt: Date | undefined;
}

/** Kafka's names for how a listener's clients are protected. */
export const ENDPOINT_PROTOCOLS = ["PLAINTEXT", "SASL_SSL"] as const;

/** Where Kafka clients connect. */
export interface Endpoint {
  readonly name: "kafka" | "kafka-tls";
  readonly protocol: (typeof ENDPOINT_PROTOCOLS)[number];
  /** `host:port`, of several brokers separated by commas */
  readonly bootstrapServers: string;
}

/** Which listeners a cluster has at its placement. */
export interface ListenerChoice {
  /** Whether there is one without TLS beside the one with it. A placement without a TLS port has it anyway. */
  readonly plaintextListener: boolean;
  readonly brokers: number;
}

/** The ports of one of the cluster's brokers. */
export function placementOf(placement: Placement, brokerId: number): Placement {
  const { kafkaPort, tlsPort, adminPort } = placement;
  const index = Math.max(brokerId - 1, 0);
  return {
    host: placement.host,
    kafkaPort: kafkaPort + index,
    ...(tlsPort !== undefined && { tlsPort: tlsPort + index }),
    ...(adminPort !== undefined && { adminPort: adminPort + index }),
  };
}

/** The endpoints of a placement, the one without TLS first. Each names every broker. */
export function endpointsAt(
  placement: Placement,
  { plaintextListener, brokers }: ListenerChoice,
): readonly Endpoint[] {
  const places = brokerIdsOf({ brokers }).map((id) => placementOf(placement, id));
  const plain: Endpoint = {
    name: "kafka",
    protocol: "PLAINTEXT",
    bootstrapServers: places.map(({ host, kafkaPort }) => `${host}:${kafkaPort}`).join(","),
  };
  if (placement.tlsPort === undefined) return [plain];
  const addresses = places.map(({ host, tlsPort }) => `${host}:${tlsPort}`).join(",");
  const secure: Endpoint = { name: "kafka-tls", protocol: "SASL_SSL", bootstrapServers: addresses };
  return plaintextListener ? [plain, secure] : [secure];
}

/** Where clients connect, once the cluster has been published. */
export function endpointsOf(cluster: Cluster): readonly Endpoint[] {
  const { placement, observedRevision } = cluster;
  return placement === undefined || observedRevision === 0 ? [] : endpointsAt(placement, cluster);
}

/** Where clients bootstrap from, once the cluster has been published. */
export function bootstrapServers(cluster: Cluster): string | undefined {
  return endpointsOf(cluster)[0]?.bootstrapServers;
}

/** Throws `cluster_not_ready` or `broker_unavailable` unless a broker is expected to answer. */
export function assertServing(cluster: Cluster): void {
  if (!isServing(cluster.phase)) throw clusterNotReady(cluster);
  const [condition] = cluster.conditions;
  if (cluster.phase !== "DEGRADED" || condition?.reason !== CANNOT_START) return;
  // It is not restarted: waiting for it would only delay the answer.
  throw new DomainError("broker_unavailable", "The broker cannot start.", {
    remedy: condition.message,
  });
}

const REMEDIES: Readonly<Partial<Record<ClusterPhase, string>>> = {
  PAUSED: "Resume the cluster first.",
  FAILED: "Retry the failed operation first; the cluster's status names it.",
  DELETING: "The cluster is being deleted.",
  PENDING_PURGE: "Restore the cluster first.",
};
/** Waiting changes nothing in the phases of `REMEDIES`; elsewhere an operation is at work. */
const RETRY_AFTER_SECONDS = 5;

/** Phases that end by themselves: in the others, the request fails until somebody acts. */
const PASSING_PHASES: ReadonlySet<ClusterPhase> = new Set(["PROVISIONING", "UPDATING", "DEGRADED"]);

/** The phase as a sentence has it: `paused`, `pending purge`. */
function phaseWords(phase: ClusterPhase): string {
  return phase.toLowerCase().replaceAll("_", " ");
}

/** The cluster's phase does not allow the request; `help` replaces what usually helps in that phase. */
export function clusterNotReady(
  { name, phase }: Pick<Cluster, "name" | "phase">,
  help: { remedy: string; retryAfterSeconds?: number } = usualHelp(phase),
): DomainError {
  return new DomainError("cluster_not_ready", `Cluster ${name} is ${phaseWords(phase)}.`, {
    ...help,
    retryable: help.retryAfterSeconds !== undefined || PASSING_PHASES.has(phase),
  });
}

function usualHelp(phase: ClusterPhase): { remedy: string; retryAfterSeconds?: number } {
  const remedy = REMEDIES[phase];
  if (remedy !== undefined) return { remedy };
  return {
    remedy: "Wait until the cluster is running. Its operation shows the progress.",
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  };
}
