/**
 * The seam between the control plane and the place where brokers run.
 *
 * A driver brings a cluster to its desired state (`ClusterDeployment`). Every method is idempotent and safe to
 * repeat after a crash at any instant: a caller that does not know whether its last call happened calls again.
 * A driver has no essential state in memory. Its records are stored beside the cluster (a pid file, a Terraform
 * state), the product's (the placement) in the control plane's database.
 */
import type {
  AwsSpec,
  BenchmarkLoad,
  BenchmarkReport,
  BenchmarkSample,
  BrokerExit,
  BrokerSlot,
  ClusterSize,
  Placement,
} from "@millrace/domain";
import type { ChangePlan, PlanOptions, RunOptions, SweepReport } from "./change-plan.ts";
import type { KafkaAddress } from "./kafka-address.ts";

export type { Placement };

/** The address of a placement's listener without TLS. */
export function plaintextAddress(placement: Placement): KafkaAddress {
  return { bootstrapServers: `${placement.host}:${placement.kafkaPort}` };
}

/**
 * Base address of the broker's admin HTTP at its own port, without a path. Throws `ProvisionError` `unconfigured`
 * where it has none.
 */
export function adminUrlOf({ host, adminPort }: Placement): string {
  if (adminPort === undefined) {
    const message = "the broker has no admin port, and this program no gateway to reach it by";
    throw new ProvisionError("unconfigured", message);
  }
  return `http://${host}:${adminPort}`;
}

/** Settings of a cluster on AWS. Absent for a cluster on this machine. */
export interface AwsDeployment extends AwsSpec {
  /** Availability zones, as `eu-central-1a`; slot n lies in zone n modulo their number. */
  readonly zones: readonly string[];
}

/** The desired state of a cluster. */
export interface ClusterDeployment {
  readonly clusterId: string;
  readonly organizationId: string;
  readonly environmentId: string;
  readonly name: string;
  /** `local`, or an AWS region. */
  readonly region: string;
  readonly size: ClusterSize;
  /** Broker slots, from 1. */
  readonly brokers: number;
  /** No broker runs; data stays. */
  readonly paused: boolean;
  /** The tenant's labels; on AWS they become tags. */
  readonly labels: Readonly<Record<string, string>>;
  readonly aws?: AwsDeployment;
  readonly placement: Placement;
  /** Whether clients may connect without TLS; `endpointsAt` derives the listeners from it. */
  readonly plaintextListener: boolean;
  /** Size of the write-ahead log on disk, in bytes. */
  readonly walCapacityBytes: number;
  /**
   * Broker properties that follow from the cluster's size and settings. Addresses, paths, ids and
   * tokens are the driver's own and must not appear here.
   */
  readonly properties: Readonly<Record<string, string>>;
}

/** How to talk to one of a cluster's brokers. The token is a secret: never log it, never store it. */
export interface BrokerAccess {
  /**
   * How a benchmark's load connects: with the control plane's user where the broker knows it. A function,
   * because the admin HTTP needs neither the CA nor a sign-in. Throws `ProvisionError` `not_prepared`, `config`.
   */
  readonly kafka: () => Promise<KafkaAddress>;
  readonly adminUrl: string;
  readonly adminToken: string;
  /** Set where a gateway passes requests on: each answer must be this broker's. */
  readonly slot?: BrokerSlot;
}

/**
 * What a driver observes of a cluster, or of one of its brokers:
 * - `absent`   nothing of it exists, not even its data;
 * - `stopped`  it is prepared, no broker runs;
 * - `partial`  of several brokers some run and some do not;
 * - `starting` every broker runs, and not all answer as ready;
 * - `ready`    every broker runs and serves clients.
 */
export type Observation = "absent" | "stopped" | "partial" | "starting" | "ready";

export interface StartOptions {
  /**
   * Starts with the configuration that was prepared, because this deployment is not approved yet. On AWS it makes
   * no difference: the instances start by themselves.
   */
  readonly asPrepared?: boolean;
  /** Starts this one of several brokers only. */
  readonly brokerId?: number | undefined;
}

export interface WaitOptions {
  /** Gives up after this many milliseconds. Each driver has its own default. */
  readonly timeoutMs?: number;
  /** Aborted when the caller lost its right to act (lease, shutdown). Nothing is undone. */
  readonly signal?: AbortSignal;
}

export interface RestartOptions extends RunOptions {
  /** Restarts this broker only; without it all of them, one after the other. */
  readonly brokerId?: number | undefined;
}

export interface BenchmarkOptions {
  /** Ends the load early. */
  readonly signal: AbortSignal;
  /** Called for each second of the load, in order. Never waits. */
  readonly onSample: (sample: BenchmarkSample) => void;
}

/** How a driver's environment differs from others. Callers check these, never the driver's name. */
export interface DriverCapabilities {
  /**
   * The control plane starts and restarts brokers itself. Otherwise the provider does, and a broker
   * that serves may still run with settings that were replaced since.
   */
  readonly startsBrokers: boolean;
  /** No other installation has clusters here, so unknown clusters are not in use. */
  readonly exclusive: boolean;
  /** Shortest time between two observations of a cluster, in milliseconds; 0 where they cost nothing. */
  readonly observeIntervalMs: number;
  /** Describes a cluster of which nothing exists: one sentence for the tenant. */
  readonly absentMessage: string;
}

export interface ClusterDriver {
  /** For logs. */
  readonly name: "local" | "aws";
  readonly capabilities: DriverCapabilities;

  /**
   * Picks a placement for so many brokers that is free now and not in `taken`. Creates nothing; the caller records the
   * answer before any other call, and repeats this one for a cluster only if nothing was recorded.
   */
  allocate(clusterId: string, taken: readonly Placement[], brokers: number): Promise<Placement>;

  /**
   * Writes everything a broker needs to start: folders, configuration, admin token; on AWS the stack,
   * with its providers. Throws `ProvisionError` `aborted` if interrupted.
   */
  prepare(deployment: ClusterDeployment, options?: RunOptions): Promise<void>;

  /** Whether `prepare` has happened with exactly this deployment. */
  isPrepared(deployment: ClusterDeployment): Promise<boolean>;

  /**
   * Starts the brokers that do not run, and adopts those that do: never a second one on the same data. A broker starts
   * with this deployment's properties, whichever were prepared, or with the prepared ones if `asPrepared`.
   * Returns once the processes exist, which is before they are ready.
   * Throws `ProvisionError` `not_prepared`, `start_failed`.
   */
  ensureRunning(deployment: ClusterDeployment, options?: StartOptions): Promise<void>;

  /**
   * Waits until every broker serves clients, and several are members of one cluster. Throws `ProvisionError`
   * `start_failed` at once when a broker's process ends, `not_ready_in_time` at the timeout.
   */
  waitReady(deployment: ClusterDeployment, options?: WaitOptions): Promise<void>;

  /** Of the whole cluster, or of one of several brokers. */
  observe(deployment: ClusterDeployment, brokerId?: number): Promise<Observation>;

  /**
   * Why a broker does not serve: how it ended last, or what keeps the next one from starting. Undefined if it
   * runs, never ran, or the driver cannot know. `brokerId` is that of one of several brokers.
   */
  lastExit(clusterId: string, brokerId?: number): Promise<BrokerExit | undefined>;

  /**
   * How to reach a broker, the first one by default: its admin HTTP, and the cluster's listeners for Kafka's protocol.
   * Throws `ProvisionError` `not_prepared`.
   */
  access(deployment: ClusterDeployment, brokerId?: number): Promise<BrokerAccess>;

  /** Drains and stops all brokers; they are gone when this returns. Data stays. */
  stop(clusterId: string, options?: WaitOptions): Promise<void>;

  /**
   * Stops and starts brokers that run, one at a time, and waits for each to serve before the next one. Of several, a broker
   * is only stopped while all the others serve. Throws `ProvisionError` `not_ready_in_time`, `start_failed`,
   * `not_prepared`, `unconfigured` where brokers are not restarted from here.
   */
  restart(deployment: ClusterDeployment, options?: RestartOptions): Promise<void>;

  /** Stops the brokers and removes everything of the cluster, data included. */
  destroy(clusterId: string, options?: RunOptions): Promise<void>;

  /** Whether nothing of the cluster is left. */
  isDestroyed(clusterId: string): Promise<boolean>;

  /** Ids of all clusters of which anything exists here. */
  list(): Promise<readonly string[]>;

  /** Routine maintenance of one cluster, called every few seconds, such as bounding log files. */
  maintain(deployment: ClusterDeployment): Promise<void>;

  /**
   * The changes that bring the cluster to `deployment`, or pause it, delete it but keep its data (`destroy`), or
   * remove it with its data (`purge`). Changes nothing. Unless `offline`, the plan is stored beside the cluster
   * under its id until it is applied, replaced by a newer one, or the cluster is gone.
   *
   * The purpose `recover` plans to rebuild the metadata of a broker that lost it: the plan's
   * `recovery` says what comes back and what is missing. Throws `not_recoverable` where nothing is
   * lost, `broker_running` while a broker uses the data.
   *
   * Throws `ProvisionError` `plan_failed`, `config`, `auth`, `throttled`, `unconfigured`, `aborted`.
   */
  plan(deployment: ClusterDeployment, options: PlanOptions): Promise<ChangePlan>;

  /**
   * Applies exactly the plan of that id. Repeating it after a success does nothing. After an interruption it
   * throws `plan_stale` if the stored plan no longer fits the cluster: plan again.
   * Throws `ProvisionError` `plan_stale`, `apply_failed`, `quota`, `capacity`, `throttled`, `auth`,
   * `config`, `aborted`.
   */
  apply(deployment: ClusterDeployment, planId: string, options?: RunOptions): Promise<void>;

  /**
   * Changes made outside Millrace: `before` is what was applied, `after` what exists now. Empty if there is no
   * drift.
   */
  drift(deployment: ClusterDeployment, options?: RunOptions): Promise<ChangePlan>;

  /**
   * Finds resources of the cluster that exist but are not recorded, for example because a run was killed right
   * after creating them. Imports those that the cluster needs and removes the others.
   */
  sweep(deployment: ClusterDeployment, options?: RunOptions): Promise<SweepReport>;

  /**
   * Runs a load against the cluster's broker, on a topic that the caller has created, and returns when the
   * program that made it has ended. Throws `ProvisionError` `benchmark_failed`, `unconfigured`, `aborted`.
   */
  runLoad(
    deployment: ClusterDeployment,
    load: BenchmarkLoad,
    options: BenchmarkOptions,
  ): Promise<BenchmarkReport>;

  /** Ends the load on this topic that a killed worker left, if any. Throws `ProvisionError` `stop_failed`. */
  endLoad(topic: string): Promise<void>;
}

/** The kind of a failure, for the caller to act on. */
export type ProvisionErrorCode =
  /** No free place: every port of the range is taken. Stop something, then retry. */
  | "no_placement"
  /** `prepare` has not happened, or the cluster was destroyed. Prepare first. */
  | "not_prepared"
  /** The broker's process could not start or ended at once; `detail` holds the end of its log. */
  | "start_failed"
  /** The broker runs but was not ready in time. Retry may help. */
  | "not_ready_in_time"
  /** A broker's partitions did not move away in time. Retry may help. */
  | "not_drained_in_time"
  /** A broker uses the data that is to be recovered. Retry helps if it was about to end. */
  | "broker_running"
  /** There is nothing to recover, or the slot has not reported yet what is lost. */
  | "not_recoverable"
  /** The broker's process outlived SIGKILL. Check the machine. */
  | "stop_failed"
  /** The stored plan is gone or no longer fits the cluster. Plan again; a different plan needs another approval. */
  | "plan_stale"
  /** No plan could be made; `detail` holds the diagnostics. */
  | "plan_failed"
  /** A part of the plan failed; created resources are recorded. A retry continues. */
  | "apply_failed"
  /** A limit of the account is reached. Raise it at the provider, then retry. */
  | "quota"
  /** The load of a benchmark failed; `detail` holds what its program said. */
  | "benchmark_failed"
  /** The provider asked to slow down. Retry after a while. */
  | "throttled"
  /** The provider accepts such a change only once in several hours. Retry after that. */
  | "too_soon"
  /** The provider has no such machine in that zone now. Retry later, or change zone or size. */
  | "capacity"
  /** The role could not be assumed, or lacks a permission. `detail` names it; retry does not help. */
  | "auth"
  /** The provider refused a setting. `detail` names it; change it. */
  | "config"
  /** A policy rule forbids the plan; `detail` lists the findings. */
  | "policy_refused"
  /** This installation has no account for the region, or lacks the Terraform program. */
  | "unconfigured"
  /** Another run works on this cluster. Retry after a while. */
  | "busy"
  /** The caller aborted. */
  | "aborted";

/** Codes after which the same call may succeed without any change. */
const RETRYABLE: ReadonlySet<ProvisionErrorCode> = new Set([
  "no_placement",
  "start_failed",
  "not_ready_in_time",
  "not_drained_in_time",
  "stop_failed",
  "broker_running",
  "plan_failed",
  "apply_failed",
  "throttled",
  "capacity",
  "busy",
]);

export class ProvisionError extends Error {
  override readonly name = "ProvisionError";
  readonly code: ProvisionErrorCode;
  /** Text for operators, such as the end of the broker's log; may be shown to the tenant. */
  readonly detail: string | undefined;

  /** Whether a retry may succeed without any change. */
  get retryable(): boolean {
    return RETRYABLE.has(this.code);
  }

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
