/**
 * The seam between the control plane and the place where brokers run.
 *
 * A driver is told what a cluster should be (`ClusterDeployment`) and makes it so. Every method is
 * idempotent and safe to repeat after a crash at any instant: a caller that does not know whether
 * its last call happened simply calls again. A driver holds no state of its own that matters; what
 * it needs to remember lies beside the cluster (a pid file, a Terraform state), what the product
 * needs to remember (the placement) lies in the control plane's database.
 */
import type { Placement } from "@millrace/domain";

export type { Placement };

/** Kafka bootstrap address of a placement: `host:port`. */
export function bootstrapServersOf(placement: Placement): string {
  return `${placement.host}:${placement.kafkaPort}`;
}

/** Base address of the broker's admin HTTP, without a path. */
export function adminUrlOf(placement: Placement): string {
  return `http://${placement.host}:${placement.adminPort}`;
}

/** What a cluster should be. */
export interface ClusterDeployment {
  readonly clusterId: string;
  readonly placement: Placement;
  /** Size of the write-ahead log on disk, in bytes. */
  readonly walCapacityBytes: number;
  /**
   * Broker properties that follow from the cluster's size and settings. Addresses, paths, ids and
   * tokens are the driver's own and must not appear here.
   */
  readonly properties: Readonly<Record<string, string>>;
}

/** How to talk to a cluster's broker. The token is a secret: never log it, never store it. */
export interface BrokerAccess {
  readonly bootstrapServers: string;
  readonly adminUrl: string;
  readonly adminToken: string;
}

/**
 * What a driver sees when it looks at a cluster:
 * - `absent`   nothing of it exists, not even its data;
 * - `stopped`  it is prepared, no broker runs;
 * - `starting` a broker runs but does not answer as ready;
 * - `ready`    a broker runs and serves clients.
 */
export type Observation = "absent" | "stopped" | "starting" | "ready";

export interface WaitOptions {
  /** Gives up after this many milliseconds. Each driver has its own default. */
  readonly timeoutMs?: number;
  /** Aborted when the caller lost its right to act (lease, shutdown). Nothing is undone. */
  readonly signal?: AbortSignal;
}

export interface ClusterDriver {
  readonly name: "local" | "aws";

  /**
   * Picks a placement that is free now and collides with none of `taken`. Makes nothing; the caller
   * records the answer before it calls anything else, and calls again with the same cluster only
   * when nothing was recorded.
   */
  allocate(clusterId: string, taken: readonly Placement[]): Promise<Placement>;

  /** Writes everything a broker needs to start: folders, configuration, admin token. */
  prepare(deployment: ClusterDeployment): Promise<void>;

  /** Whether `prepare` has happened with exactly this deployment. */
  isPrepared(deployment: ClusterDeployment): Promise<boolean>;

  /**
   * Starts the broker, or adopts the one that runs already: never a second one on the same data.
   * A broker that starts does so with this deployment's properties, whichever were prepared.
   * Returns once the process exists, which is before it is ready.
   * Throws `ProvisionError` `not_prepared`, `start_failed`.
   */
  ensureRunning(deployment: ClusterDeployment): Promise<void>;

  /**
   * Waits until the broker serves clients. Throws `ProvisionError` `start_failed` at once when the
   * broker's process ends, `not_ready_in_time` at the timeout.
   */
  waitReady(deployment: ClusterDeployment, options?: WaitOptions): Promise<void>;

  observe(deployment: ClusterDeployment): Promise<Observation>;

  /** How to reach the broker's admin HTTP. Throws `ProvisionError` `not_prepared`. */
  access(deployment: ClusterDeployment): Promise<BrokerAccess>;

  /** Drains and stops the broker; it is gone when this returns. Data stays. */
  stop(clusterId: string, options?: WaitOptions): Promise<void>;

  /** Stops the broker and removes everything of the cluster, data included. */
  destroy(clusterId: string): Promise<void>;

  /** Whether nothing of the cluster is left. */
  isDestroyed(clusterId: string): Promise<boolean>;

  /** Ids of all clusters of which anything exists here. */
  list(): Promise<readonly string[]>;

  /** Routine care of one cluster, called every few seconds: bounds its log files and the like. */
  maintain(clusterId: string): Promise<void>;
}

/** What went wrong, for the caller to act on. */
export type ProvisionErrorCode =
  /** No free place: every port of the range is taken. Stop something, then retry. */
  | "no_placement"
  /** `prepare` has not happened, or the cluster was destroyed. Prepare first. */
  | "not_prepared"
  /** The broker's process could not start or ended at once; `detail` holds the end of its log. */
  | "start_failed"
  /** The broker runs but was not ready in time. Retry may help. */
  | "not_ready_in_time"
  /** The broker's process survived even SIGKILL for the bounded time. Look at the machine. */
  | "stop_failed"
  /** The caller aborted. */
  | "aborted";

export class ProvisionError extends Error {
  override readonly name = "ProvisionError";
  readonly code: ProvisionErrorCode;
  /** Text for operators, such as the end of the broker's log; may be shown to the tenant. */
  readonly detail: string | undefined;

  constructor(
    code: ProvisionErrorCode,
    message: string,
    options?: ErrorOptions & { detail?: string },
  ) {
    super(message, options);
    this.code = code;
    this.detail = options?.detail;
  }
}
