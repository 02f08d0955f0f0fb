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
  brokerIdsOf,
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

/** The supervisor's memory of one cluster, and of each of several brokers; losing it only shortens the backoff. */
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

/** One of the brokers of a cluster, or what serves a cluster of one. */
interface Look {
  /** Undefined where the cluster has no several brokers. */
  readonly brokerId: number | undefined;
  readonly watch: Watch;
  readonly observation: Observation;
  /** Why it does not serve; undefined while it does, or is given time to. */
  readonly health: BrokerHealth | undefined;
}

/**
 * Keeps every cluster's brokers running. It restarts a broker that died, and shows the cluster as DEGRADED
 * until every broker is ready. It stops the broker of a paused cluster. On AWS it only observes, because an
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
    for (const key of this.#watches.keys()) {
      if (!ids.has(clusterIn(key))) this.#watches.delete(key);
    }
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
      if (cluster.paused) await this.#attendPaused(cluster, driver, deployment, log);
      else await this.#attendServing(cluster, driver, deployment, { signal, log });
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

  async #attendPaused(
    cluster: Cluster,
    driver: ClusterDriver,
    deployment: ClusterDeployment,
    log: Logger,
  ): Promise<void> {
    const observation = await driver.observe(deployment);
    for (const [key, watch] of this.#watches) {
      if (clusterIn(key) === cluster.id) watch.backoff = this.#newBackoff();
    }
    if (!driver.capabilities.startsBrokers) return;
    await this.#keepPaused(cluster, driver, observation, log);
  }

  async #attendServing(
    cluster: Cluster,
    driver: ClusterDriver,
    deployment: ClusterDeployment,
    { signal, log }: { signal: AbortSignal | undefined; log: Logger },
  ): Promise<void> {
    const looks: Look[] = [];
    for (const brokerId of await this.#brokerIdsOf(cluster)) {
      const observation = await driver.observe(deployment, brokerId);
      if (signal?.aborted) return;
      looks.push(await this.#look(cluster, driver, { brokerId, observation }, log));
    }
    const health = healthOf(looks);
    if (health !== undefined) await this.#degrade(cluster, health, log);
    else if (looks.every(({ observation }) => observation === "ready")) {
      await this.#isReady(cluster, looks, log);
    }
    for (const look of looks) {
      const { observation, watch } = look;
      const isDown = observation === "stopped" && this.#finalFailure(watch) === undefined;
      if (!isDown || !driver.capabilities.startsBrokers) continue;
      if (watch.backoff.mayStart(this.#now())) await this.#restart(cluster, driver, look, log);
    }
  }

  /** Those that an operation which has not begun is to start are not there yet; those that it is to stop still serve. */
  async #brokerIdsOf(cluster: Cluster): Promise<readonly (number | undefined)[]> {
    if (cluster.brokers === 1 || cluster.aws !== undefined) return [undefined];
    const origin = await this.#originBeforeChange(cluster);
    return brokerIdsOf({ brokers: origin?.spec.brokers ?? cluster.brokers });
  }

  async #look(
    cluster: Cluster,
    driver: ClusterDriver,
    seen: Pick<Look, "brokerId" | "observation">,
    log: Logger,
  ): Promise<Look> {
    const { brokerId, observation } = seen;
    const key = brokerId === undefined ? cluster.id : `${cluster.id}/${brokerId}`;
    const watch = this.#watchOf(key);
    if (observation === "ready") {
      watch.backoff.ready(this.#now());
      watch.unresponsiveSince = undefined;
      return { ...seen, watch, health: undefined };
    }
    watch.backoff.notReady();
    const lastExit = () => this.#lastExit(driver, cluster, brokerId, log);
    if (observation === "starting" || observation === "partial") {
      return { ...seen, watch, health: await this.#unresponsive(watch, nameOf(seen), lastExit) };
    }
    watch.unresponsiveSince = undefined;
    // A start would create a new, empty cluster under the old name.
    if (observation === "absent") return { ...seen, watch, health: this.#absent(cluster, driver) };
    watch.lastExit = watch.startFailure ?? (await lastExit());
    const health =
      this.#finalFailure(watch) ?? brokerDown(this.#stoppedMessage(watch, nameOf(seen)));
    return { ...seen, watch, health };
  }

  /** While an operation changes the cluster, a broker may be about to get its folder. */
  #absent(cluster: Cluster, { capabilities }: ClusterDriver): BrokerHealth | undefined {
    if (cluster.brokers > 1 && cluster.phase === "UPDATING") return undefined;
    return brokerDown(capabilities.absentMessage);
  }

  /** Only an explanation: if it cannot be read, the cluster is degraded without it. */
  async #lastExit(
    driver: ClusterDriver,
    { id }: Cluster,
    brokerId: number | undefined,
    log: Logger,
  ): Promise<BrokerExit | undefined> {
    try {
      return await driver.lastExit(id, brokerId);
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

  #stoppedMessage(watch: Watch, name: string): string {
    const restarts = this.#restarts(watch);
    if (restarts !== undefined) return `${name} has stopped. ${restarts}`;
    const reason = watch.lastExit?.reason;
    return sentence(`${name} has stopped${reason === undefined ? "" : `: ${reason}`}`);
  }

  /** As "Restarted 6 times in 10 min: the task upload panicked: …". */
  #restarts({ backoff, lastExit }: Watch): string | undefined {
    const starts = backoff.recentStarts(this.#now());
    // Whoever stops everything and starts it again later needs no warning.
    if (starts === 0 || lastExit?.code === 0) return undefined;
    const times = starts === 1 ? "once" : `${starts} times`;
    const reason = sentence(lastExit?.reason ?? "the broker gives no reason");
    return `Restarted ${times} in ${RESTART_WINDOW_MS / 60_000} min: ${reason}`;
  }

  async #isReady(cluster: Cluster, looks: readonly Look[], log: Logger): Promise<void> {
    const [restarts] = looks.flatMap((look) => {
      const text = this.#restarts(look.watch);
      if (text === undefined) return [];
      return [look.brokerId === undefined ? text : `${nameOf(look)}: ${text}`];
    });
    if (cluster.phase === "RUNNING" && restarts === undefined) {
      const [condition] = cluster.conditions;
      if (condition?.reason === "ServingAfterRestarts") {
        await forgetRestarts(this.#options, cluster);
      }
    }
    if (cluster.phase !== "DEGRADED") return;
    const recovered = await reportRecovered(this.#options, cluster, restarts);
    if (recovered) log.info("every broker is ready again");
  }

  async #unresponsive(
    watch: Watch,
    name: string,
    lastExit: () => Promise<BrokerExit | undefined>,
  ): Promise<BrokerHealth | undefined> {
    const now = this.#now();
    watch.unresponsiveSince ??= now;
    if (now - watch.unresponsiveSince < UNRESPONSIVE_MS) return undefined;
    const reason = (await lastExit())?.reason;
    return brokerDown(
      reason === undefined
        ? `${name} runs but does not answer.`
        : sentence(`${name} does not start: ${reason}`),
    );
  }

  async #degrade(cluster: Cluster, health: BrokerHealth, log: Logger): Promise<void> {
    const now = this.#now();
    const watch = this.#watchOf(cluster.id);
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
    { brokerId, watch }: Look,
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
    log.info({ start: watch.backoff.starts, broker: brokerId }, "restarting the broker");
    try {
      const asPrepared = origin !== undefined;
      const brokers = origin?.spec.brokers ?? deployment.brokers;
      await driver.ensureRunning({ ...deployment, brokers }, { asPrepared, brokerId });
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

/** The cluster in the key of a watch: `clu_…`, or `clu_…/2` of one of several brokers. */
function clusterIn(key: string): string {
  return key.split("/", 1)[0] ?? key;
}

function nameOf({ brokerId }: Pick<Look, "brokerId">): string {
  return brokerId === undefined ? "The broker" : `Broker ${brokerId}`;
}

/** What is wrong with the cluster; undefined where every broker serves or is given time to. */
function healthOf(looks: readonly Look[]): BrokerHealth | undefined {
  const unhealthy = looks.flatMap(({ health }) => health ?? []);
  const [first] = unhealthy;
  if (first === undefined || looks.length === 1) return first;
  if (unhealthy.length === 1) {
    const { message, detail } = first;
    return {
      reason: "BrokerDown",
      message: `${message} The other brokers serve.`,
      ...(detail && { detail }),
    };
  }
  const down = `${unhealthy.length} of ${looks.length} brokers do not serve.`;
  // While one serves, callers are answered.
  const reason = unhealthy.length === looks.length ? first.reason : "BrokerDown";
  return { ...first, reason, message: `${down} ${first.message}` };
}

function brokerDown(message: string): BrokerHealth {
  return { reason: "BrokerDown", message };
}

/** With a full stop, unless it has one. */
function sentence(text: string): string {
  return /[.…!?]$/.test(text) ? text : `${text}.`;
}
