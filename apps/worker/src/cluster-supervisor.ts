import { reportDegraded, reportRecovered } from "@millrace/core";
import type { Database } from "@millrace/db";
import { type Clock, type Cluster, SERVING_PHASES } from "@millrace/domain";
import {
  type ClusterDeployment,
  type ClusterDriver,
  type Observation,
  ProvisionError,
} from "@millrace/provisioner";
import type { Logger } from "pino";
import { type BackoffOptions, RESTART_BACKOFF, RestartBackoff } from "./restart-backoff.ts";

export interface SupervisorOptions {
  readonly db: Database;
  readonly driver: ClusterDriver;
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

/** What the supervisor remembers of one cluster; losing it costs nothing but a shorter backoff. */
interface Watch {
  readonly backoff: RestartBackoff;
  unresponsiveSince: number | undefined;
  /** Why the last start failed, for the condition. */
  lastFailure: string | undefined;
}

/**
 * Keeps every cluster's broker running: one that died is started again, and the cluster is DEGRADED
 * from the moment it is seen until the broker is ready.
 *
 * It acts on clusters in serving phases alone, and those change under its feet: operations and other
 * workers' supervisors are at work too. Each change of phase is conditional on the phase it starts
 * from; a start finds a broker that another started; a cluster being deleted cannot be started,
 * because its configuration goes first.
 */
export class ClusterSupervisor {
  readonly #options: SupervisorOptions;
  readonly #watches = new Map<string, Watch>();
  readonly #now: () => number;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Looks at every cluster once. One cluster's trouble does not keep it from the others. */
  async runOnce(signal?: AbortSignal): Promise<void> {
    const clusters = await this.#options.db.clusters.inPhases(SERVING_PHASES);
    const ids = new Set<string>(clusters.map((cluster) => cluster.id));
    for (const id of this.#watches.keys()) if (!ids.has(id)) this.#watches.delete(id);
    await Promise.all(clusters.map((cluster) => this.#attend(cluster, signal)));
  }

  async #attend(cluster: Cluster, signal: AbortSignal | undefined): Promise<void> {
    const deployment = this.#options.deploymentOf(cluster);
    if (deployment === undefined) return;
    const log = this.#options.logger.child({ cluster: cluster.id });
    try {
      const observation = await this.#options.driver.observe(deployment);
      if (signal?.aborted) return;
      await this.#react(cluster, deployment, observation, log);
      await this.#options.driver.maintain(cluster.id);
    } catch (error) {
      log.error({ err: error }, "supervising the cluster failed");
    }
  }

  async #react(
    cluster: Cluster,
    deployment: ClusterDeployment,
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
      await this.#degrade(cluster, "The cluster's data folder is missing.", log);
      return;
    }
    const because = watch.lastFailure === undefined ? "" : ` ${watch.lastFailure}`;
    await this.#degrade(cluster, `The broker has stopped.${because}`, log);
    if (watch.backoff.mayStart(this.#now())) await this.#restart(cluster, deployment, watch, log);
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
    deployment: ClusterDeployment,
    watch: Watch,
    log: Logger,
  ): Promise<void> {
    // The list that named this cluster is a moment old; it may be on its way out by now.
    const current = await this.#options.db.clusters.load(cluster.id);
    if (!SERVING_PHASES.some((phase) => phase === current?.phase)) return;
    watch.backoff.started(this.#now());
    log.info({ start: watch.backoff.starts }, "starting the broker again");
    try {
      await this.#options.driver.ensureRunning(deployment);
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
    const watch: Watch = { backoff, unresponsiveSince: undefined, lastFailure: undefined };
    this.#watches.set(id, watch);
    return watch;
  }
}
