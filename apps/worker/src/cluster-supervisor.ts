import { reportDegraded, reportRecovered } from "@millrace/core";
import type { Database } from "@millrace/db";
import { type Clock, type Cluster, type ClusterPhase, SERVING_PHASES } from "@millrace/domain";
import {
  type ClusterDeployment,
  type ClusterDriver,
  type ClusterDrivers,
  type Observation,
  ProvisionError,
} from "@millrace/provisioner";
import type { Logger } from "pino";
import { type BackoffOptions, RESTART_BACKOFF, RestartBackoff } from "./restart-backoff.ts";

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

/** What the supervisor remembers of one cluster; losing it costs nothing but a shorter backoff. */
interface Watch {
  readonly backoff: RestartBackoff;
  /** When the cluster is observed next. */
  nextObservationAt: number;
  unresponsiveSince: number | undefined;
  /** Why the last start failed, for the condition. */
  lastFailure: string | undefined;
}

/**
 * Keeps every cluster's broker running: one that died is started again, and the cluster is DEGRADED
 * from the moment it is seen until the broker is ready. The broker of a paused cluster is kept from
 * running. Beyond this machine it only looks: there a group of one starts a broker again.
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
      else if (driver.capabilities.startsBrokers) {
        await this.#keepPaused(cluster, driver, observation, log);
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
    if (observation === "starting") return await this.#isUnresponsive(cluster, watch, log);
    watch.unresponsiveSince = undefined;
    if (observation === "absent") {
      // Starting would make a new, empty cluster under the old name: that is not a repair.
      await this.#degrade(cluster, driver.capabilities.absentMessage, log);
      return;
    }
    const because = watch.lastFailure === undefined ? "" : ` ${watch.lastFailure}`;
    await this.#degrade(cluster, `The broker has stopped.${because}`, log);
    if (!driver.capabilities.startsBrokers || !watch.backoff.mayStart(this.#now())) return;
    await this.#restart(cluster, driver, watch, log);
  }

  async #isReady(cluster: Cluster, watch: Watch, log: Logger): Promise<void> {
    watch.backoff.ready(this.#now());
    watch.unresponsiveSince = undefined;
    watch.lastFailure = undefined;
    if (cluster.phase !== "DEGRADED") return;
    const recovered = await reportRecovered(this.#options, cluster.id);
    if (recovered) log.info("the broker is ready again");
  }

  async #isUnresponsive(cluster: Cluster, watch: Watch, log: Logger): Promise<void> {
    const now = this.#now();
    watch.unresponsiveSince ??= now;
    if (now - watch.unresponsiveSince < UNRESPONSIVE_MS) return;
    const message = "The broker runs but does not answer.";
    await this.#degrade(cluster, message, log);
  }

  async #degrade(cluster: Cluster, message: string, log: Logger): Promise<void> {
    if (cluster.phase === "DEGRADED") return;
    const degraded = await reportDegraded(this.#options, cluster.id, message);
    if (degraded) log.warn(message);
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
    } catch (error) {
      if (!(error instanceof ProvisionError)) throw error;
      watch.lastFailure = error.message;
      log.error({ err: error, detail: error.detail }, "the broker did not start");
    }
  }

  #watchOf(id: string): Watch {
    const known = this.#watches.get(id);
    if (known) return known;
    const backoff = new RestartBackoff(this.#options.backoff ?? RESTART_BACKOFF);
    const watch: Watch = {
      backoff,
      nextObservationAt: 0,
      unresponsiveSince: undefined,
      lastFailure: undefined,
    };
    this.#watches.set(id, watch);
    return watch;
  }
}
