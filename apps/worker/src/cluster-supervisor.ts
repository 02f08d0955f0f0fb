import { type BrokerHealth, forgetRestarts, reportDegraded, reportRecovered } from "@millrace/core";
import type { Database } from "@millrace/db";
import {
  type BrokerExit,
  type Clock,
  type Cluster,
  type ClusterPhase,
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

/** A broker that runs but does not answer for this long is reported; a busy moment is not. */
const UNRESPONSIVE_MS = 5_000;

/** A paused cluster is looked at too: whoever lost a race may have started its broker. */
const ATTENDED_PHASES: readonly ClusterPhase[] = [...SERVING_PHASES, "PAUSED"];

/** A degraded cluster counts restarts in its text, which is written this often at most: each write raises the ETag. */
const REPORT_INTERVAL_MS = 10_000;

/** What the supervisor remembers of one cluster; losing it costs nothing but a shorter backoff. */
interface Watch {
  backoff: RestartBackoff;
  /** When the cluster is observed next. */
  nextObservationAt: number;
  unresponsiveSince: number | undefined;
  /** Why the broker's process could not be started. */
  startFailure: BrokerExit | undefined;
  /** How the broker ended last; the start failure where there was one. */
  lastExit: BrokerExit | undefined;
  nextReportAt: number;
}

/**
 * Keeps every cluster's broker running: one that died is started again, and the cluster is DEGRADED
 * from the moment it is seen until the broker is ready. The broker of a paused cluster is kept from
 * running. Beyond this machine it only looks: there a group of one starts a broker again.
 *
 * A broker whose last exit says that the next start would fail the same way is started once and then
 * left: the condition says what to do. Pausing and resuming the cluster, or a new worker, tries again.
 *
 * It acts on clusters in serving phases alone, and those change under its feet: operations and other
 * workers' supervisors are at work too. Each change of phase is conditional on the phase it starts
 * from; a start finds a broker that another started; a cluster being deleted cannot be started,
 * because its configuration goes first.
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
   * Begins a look at each cluster and does not wait for its end: whoever answers slowly, such as a
   * provider that hangs, keeps nobody from the others. The next look begins when the last has ended.
   */
  async runOnce(signal?: AbortSignal): Promise<void> {
    const clusters = await this.#options.db.clusters.inPhases(ATTENDED_PHASES);
    const ids = new Set<string>(clusters.map((cluster) => cluster.id));
    for (const id of this.#watches.keys()) if (!ids.has(id)) this.#watches.delete(id);
    for (const cluster of clusters) {
      if (this.#underWay.has(cluster.id)) continue;
      const look = this.#attend(cluster, signal).finally(() => this.#underWay.delete(cluster.id));
      this.#underWay.set(cluster.id, look);
    }
  }

  /** Waits for the looks under way. */
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
      await driver.maintain(cluster.id);
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

  /** While the pause is under way its operation drains and stops the broker, not we. */
  async #keepPaused(
    { id, phase }: Cluster,
    driver: ClusterDriver,
    observation: Observation,
    log: Logger,
  ): Promise<void> {
    if (phase !== "PAUSED" || observation === "absent" || observation === "stopped") return;
    const current = await this.#options.db.clusters.load(id);
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
      // Starting would make a new, empty cluster under the old name: that is not a repair.
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

  /** Only an explanation: where it cannot be read, the cluster is degraded without it. */
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

  /** What the last exit says about every further start, once one was tried. */
  #finalFailure({ lastExit, backoff }: Watch): BrokerHealth | undefined {
    const remedy = lastExit && remedyOf(lastExit);
    if (lastExit === undefined || remedy === undefined || backoff.starts === 0) return undefined;
    return {
      reason: "BrokerCannotStart",
      message: `The broker cannot start: ${sentence(lastExit.reason)} ${remedy} Then pause and resume the cluster to start it again.`,
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
        await forgetRestarts(this.#options, cluster.id);
      }
    }
    if (cluster.phase !== "DEGRADED") return;
    const recovered = await reportRecovered(this.#options, cluster.id, restarts);
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
    if (degraded) log.warn(health.message);
  }

  async #restart(
    cluster: Cluster,
    driver: ClusterDriver,
    watch: Watch,
    log: Logger,
  ): Promise<void> {
    // The list that named this cluster is a moment old; it may be on its way out by now.
    const current = await this.#options.db.clusters.load(cluster.id);
    if (current === undefined || current.paused) return;
    if (!(SERVING_PHASES as readonly ClusterPhase[]).includes(current.phase)) return;
    const deployment = this.#options.deploymentOf(current);
    if (deployment === undefined) return;
    watch.backoff.started(this.#now());
    log.info({ start: watch.backoff.starts }, "starting the broker again");
    try {
      await driver.ensureRunning(deployment);
      watch.startFailure = undefined;
    } catch (error) {
      if (!(error instanceof ProvisionError)) throw error;
      watch.startFailure = { code: undefined, reason: error.message };
      log.error({ err: error, detail: error.detail }, "the broker did not start");
    }
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
