import {
  type BrokerHealth,
  forgetRestarts,
  originBeforeChange,
  reportDegraded,
  reportRecovered,
} from "@millrace/core";
import type { Database } from "@millrace/db";
import {
  type BrokerExit,
  CANNOT_START,
  type Clock,
  type Cluster,
  type ClusterPhase,
  isServing,
  type OperationOrigin,
  remedyOf,
  SERVING_PHASES,
} from "@millrace/domain";
import {
  type ClusterDeployment,
  type ClusterDriver,
  type ClusterDrivers,
  type Observation,
  ProvisionError,
} from "@millrace/provisioner";
import type { Logger } from "pino";
import {
  type BackoffOptions,
  RESTART_BACKOFF,
  RESTART_WINDOW_MS,
  RestartBackoff,
} from "./restart-backoff.ts";

export interface SupervisorOptions {
  readonly db: Database;
  readonly drivers: Pick<ClusterDrivers, "find">;
  /** What the cluster should be; undefined while it has no placement. */
  readonly deploymentOf: (cluster: Cluster) => ClusterDeployment | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly backoff?: BackoffOptions;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

/** A broker that runs but does not answer for this long is reported; shorter pauses are not. */
const UNRESPONSIVE_MS = 5_000;

/** Paused clusters are observed too: a concurrent restart may have started the broker. */
const ATTENDED_PHASES: readonly ClusterPhase[] = [...SERVING_PHASES, "PAUSED"];

/** The message of a degraded cluster counts restarts. It is written at most this often, because each write changes the ETag. */
const REPORT_INTERVAL_MS = 10_000;

/** The supervisor's memory of one cluster; losing it only shortens the backoff. */
interface Watch {
  backoff: RestartBackoff;
  /** Time of the next observation. */
  nextObservationAt: number;
  unresponsiveSince: number | undefined;
  /** Why the broker's process could not be started. */
  startFailure: BrokerExit | undefined;
  /** How the broker ended last; the start failure where there was one. */
  lastExit: BrokerExit | undefined;
  nextReportAt: number;
}

/**
 * Keeps every cluster's broker running. It restarts a broker that died, and shows the cluster as DEGRADED
 * until the broker is ready. It stops the broker of a paused cluster. On AWS it only observes, because an
 * Auto Scaling group restarts the broker there.
 *
 * A broker whose exit code says that every start will fail the same way is restarted once and then left
 * alone; the condition says what to do. Pausing and resuming the cluster, or a new worker, tries again.
 *
 * It acts only on clusters in serving phases, which operations and other workers' supervisors change
 * concurrently. Each change of phase is conditional on the current phase, a start adopts a broker that is
 * running already, and a cluster that is being deleted cannot be started, because its configuration is
 * removed first.
 */
export class ClusterSupervisor {
  readonly #options: SupervisorOptions;
  readonly #watches = new Map<string, Watch>();
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #now: () => number;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /**
   * Starts observing each cluster and does not wait for it, so that a provider that hangs does not delay
   * the other clusters. A cluster's next observation starts after its last one has ended.
   */
  async runOnce(signal?: AbortSignal): Promise<void> {
    const clusters = await this.#options.db.fleet.clusters.inPhases(ATTENDED_PHASES);
    const ids = new Set<string>(clusters.map((cluster) => cluster.id));
    for (const id of this.#watches.keys()) if (!ids.has(id)) this.#watches.delete(id);
    for (const cluster of clusters) {
      if (this.#underWay.has(cluster.id)) continue;
      const look = this.#attend(cluster, signal).finally(() => this.#underWay.delete(cluster.id));
      this.#underWay.set(cluster.id, look);
    }
  }

  /** Waits for the observations in progress. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  /** Never rejects. */
  async #attend(cluster: Cluster, signal: AbortSignal | undefined): Promise<void> {
    const deployment = this.#options.deploymentOf(cluster);
    const driver = this.#options.drivers.find(cluster.region);
    if (deployment === undefined || driver === undefined) return;
    if (!this.#isDue(cluster, driver)) return;
    const log = this.#options.logger.child({ cluster: cluster.id });
    try {
      const observation = await driver.observe(deployment);
      if (signal?.aborted) return;
      if (!cluster.paused) await this.#react(cluster, driver, observation, log);
      else {
        this.#watchOf(cluster.id).backoff = this.#newBackoff();
        if (driver.capabilities.startsBrokers) {
          await this.#keepPaused(cluster, driver, observation, log);
        }
      }
      await driver.maintain(deployment);
    } catch (error) {
      log.error({ err: error }, "supervising the cluster failed");
    }
  }

  #isDue({ id }: Cluster, { capabilities }: ClusterDriver): boolean {
    const watch = this.#watchOf(id);
    const now = this.#now();
    if (now < watch.nextObservationAt) return false;
    watch.nextObservationAt = now + capabilities.observeIntervalMs;
    return true;
  }

  /** During the pause operation, that operation drains and stops the broker. */
  async #keepPaused(
    { id, phase }: Cluster,
    driver: ClusterDriver,
    observation: Observation,
    log: Logger,
  ): Promise<void> {
    if (phase !== "PAUSED" || observation === "absent" || observation === "stopped") return;
    const current = await this.#options.db.fleet.clusters.load(id);
    if (current?.phase !== "PAUSED") return;
    log.warn("a paused cluster's broker runs: stopping it");
    await driver.stop(id);
  }

  async #react(
    cluster: Cluster,
    driver: ClusterDriver,
    observation: Observation,
    log: Logger,
  ): Promise<void> {
    const watch = this.#watchOf(cluster.id);
    if (observation === "ready") return await this.#isReady(cluster, watch, log);
    watch.backoff.notReady();
    if (observation === "starting") return await this.#isUnresponsive(cluster, driver, watch, log);
    watch.unresponsiveSince = undefined;
    if (observation === "absent") {
      // A start would create a new, empty cluster under the old name.
      await this.#degrade(cluster, watch, brokerDown(driver.capabilities.absentMessage), log);
      return;
    }
    watch.lastExit = watch.startFailure ?? (await this.#lastExit(driver, cluster, log));
    const final = this.#finalFailure(watch);
    if (final !== undefined) return await this.#degrade(cluster, watch, final, log);
    const message = this.#stoppedMessage(watch);
    await this.#degrade(cluster, watch, brokerDown(message), log);
    if (!driver.capabilities.startsBrokers || !watch.backoff.mayStart(this.#now())) return;
    await this.#restart(cluster, driver, watch, log);
  }

  /** Only an explanation: if it cannot be read, the cluster is degraded without it. */
  async #lastExit(
    driver: ClusterDriver,
    { id }: Cluster,
    log: Logger,
  ): Promise<BrokerExit | undefined> {
    try {
      return await driver.lastExit(id);
    } catch (error) {
      log.warn({ err: error }, "cannot read why the broker does not serve");
      return undefined;
    }
  }

  /** Why every further start would fail, once a restart was tried. */
  #finalFailure({ lastExit, backoff }: Watch): BrokerHealth | undefined {
    const remedy = lastExit && remedyOf(lastExit);
    if (lastExit === undefined || remedy === undefined || backoff.starts === 0) return undefined;
    return {
      reason: CANNOT_START,
      message: remedy,
      detail: sentence(lastExit.reason),
    };
  }

  #stoppedMessage(watch: Watch): string {
    const restarts = this.#restarts(watch);
    if (restarts !== undefined) return `The broker has stopped. ${restarts}`;
    const reason = watch.lastExit?.reason;
    return reason === undefined
      ? "The broker has stopped."
      : sentence(`The broker has stopped: ${reason}`);
  }

  /** As "Restarted 6 times in 10 min: the task upload panicked: …". */
  #restarts({ backoff, lastExit }: Watch): string | undefined {
    const starts = backoff.recentStarts(this.#now());
    if (starts === 0) return undefined;
    const times = starts === 1 ? "once" : `${starts} times`;
    const reason = sentence(lastExit?.reason ?? "the broker gives no reason");
    return `Restarted ${times} in ${RESTART_WINDOW_MS / 60_000} min: ${reason}`;
  }

  async #isReady(cluster: Cluster, watch: Watch, log: Logger): Promise<void> {
    watch.backoff.ready(this.#now());
    watch.unresponsiveSince = undefined;
    const restarts = this.#restarts(watch);
    if (cluster.phase === "RUNNING" && restarts === undefined) {
      const [condition] = cluster.conditions;
      if (condition?.reason === "ServingAfterRestarts") {
        await forgetRestarts(this.#options, cluster);
      }
    }
    if (cluster.phase !== "DEGRADED") return;
    const recovered = await reportRecovered(this.#options, cluster, restarts);
    if (recovered) log.info("the broker is ready again");
  }

  async #isUnresponsive(
    cluster: Cluster,
    driver: ClusterDriver,
    watch: Watch,
    log: Logger,
  ): Promise<void> {
    const now = this.#now();
    watch.unresponsiveSince ??= now;
    if (now - watch.unresponsiveSince < UNRESPONSIVE_MS) return;
    const reason = (await this.#lastExit(driver, cluster, log))?.reason;
    const message =
      reason === undefined
        ? "The broker runs but does not answer."
        : sentence(`The broker does not start: ${reason}`);
    await this.#degrade(cluster, watch, brokerDown(message), log);
  }

  async #degrade(cluster: Cluster, watch: Watch, health: BrokerHealth, log: Logger): Promise<void> {
    const now = this.#now();
    const [condition] = cluster.conditions;
    if (cluster.phase === "DEGRADED" && condition?.message === health.message) return;
    const isNew = cluster.phase !== "DEGRADED" || condition?.reason !== health.reason;
    if (!isNew && now < watch.nextReportAt) return;
    watch.nextReportAt = now + REPORT_INTERVAL_MS;
    const degraded = await reportDegraded(this.#options, cluster, health);
    if (degraded) log.warn({ detail: health.detail }, health.message);
  }

  async #restart(
    cluster: Cluster,
    driver: ClusterDriver,
    watch: Watch,
    log: Logger,
  ): Promise<void> {
    // The list is a moment old; the cluster may be in deletion by now.
    const current = await this.#options.db.fleet.clusters.load(cluster.id);
    if (current === undefined || current.paused) return;
    if (!isServing(current.phase)) return;
    const deployment = this.#options.deploymentOf(current);
    if (deployment === undefined) return;
    const origin = await this.#originBeforeChange(current);
    if (origin !== undefined && !isServing(origin.phase)) return;
    watch.backoff.started(this.#now());
    log.info({ start: watch.backoff.starts }, "restarting the broker");
    try {
      await driver.ensureRunning(deployment, { asPrepared: origin !== undefined });
      watch.startFailure = undefined;
    } catch (error) {
      if (!(error instanceof ProvisionError)) throw error;
      watch.startFailure = { code: undefined, reason: error.message };
      log.error({ err: error, detail: error.detail }, "the broker did not start");
    }
  }

  /** A change that may still wait for approval must not take effect by a restart. */
  async #originBeforeChange(cluster: Cluster): Promise<OperationOrigin | undefined> {
    if (cluster.phase !== "UPDATING") return undefined;
    const { operations } = this.#options.db.tenant(cluster.organizationId);
    return originBeforeChange(await operations.underWay(cluster.id));
  }

  #watchOf(id: string): Watch {
    const known = this.#watches.get(id);
    if (known) return known;
    const watch: Watch = {
      backoff: this.#newBackoff(),
      nextObservationAt: 0,
      unresponsiveSince: undefined,
      startFailure: undefined,
      lastExit: undefined,
      nextReportAt: 0,
    };
    this.#watches.set(id, watch);
    return watch;
  }

  #newBackoff(): RestartBackoff {
    return new RestartBackoff(this.#options.backoff ?? RESTART_BACKOFF);
  }
}

function brokerDown(message: string): BrokerHealth {
  return { reason: "BrokerDown", message };
}

/** With a full stop, unless it has one. */
function sentence(text: string): string {
  return /[.…!?]$/.test(text) ? text : `${text}.`;
}
