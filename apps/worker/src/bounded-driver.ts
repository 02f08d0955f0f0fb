import type { ClusterDeployment, ClusterDriver, RunOptions } from "@millrace/provisioner";

interface Waiting {
  readonly owner: string;
  readonly take: () => void;
}

/**
 * Bounds concurrent runs. The next run is the oldest one of the owner with the fewest running, so one owner's
 * backlog does not delay the others.
 */
class Turns {
  readonly #waiting: Waiting[] = [];
  readonly #running: string[] = [];
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  async run<T>(owner: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    if (this.#running.length < this.#max) this.#running.push(owner);
    else await this.#turn(owner, signal);
    try {
      return await work();
    } finally {
      this.#running.splice(this.#running.indexOf(owner), 1);
      this.#giveTurn();
    }
  }

  #giveTurn(): void {
    const turnsOf = ({ owner }: Waiting) => this.#running.filter((each) => each === owner).length;
    const [next] = this.#waiting.toSorted((a, b) => turnsOf(a) - turnsOf(b));
    if (next === undefined) return;
    this.#waiting.splice(this.#waiting.indexOf(next), 1);
    this.#running.push(next.owner);
    next.take();
  }

  async #turn(owner: string, signal: AbortSignal | undefined): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(signal?.reason);
      };
      const take = () => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      const waiting: Waiting = { owner, take };
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(waiting);
    });
  }
}

/**
 * A driver with bounded concurrency: each Terraform run takes some hundred megabytes and a CPU. Organizations
 * take turns, so one with many clusters does not delay the others. Observing and stopping a broker never wait.
 *
 * `protect` runs what changes the account, which must not be cut off.
 */
export function boundedDriver(
  driver: ClusterDriver,
  runsMax: number,
  protect: <T>(work: () => Promise<T>) => Promise<T> = (work) => work(),
): ClusterDriver {
  const turns = new Turns(runsMax);
  const bounded = <T>(
    { organizationId }: ClusterDeployment,
    options: RunOptions | undefined,
    work: () => Promise<T>,
  ) => turns.run(organizationId, options?.signal, work);
  return {
    name: driver.name,
    capabilities: driver.capabilities,
    prepare: (deployment, options) =>
      bounded(deployment, options, () => driver.prepare(deployment, options)),
    plan: (deployment, options) =>
      bounded(deployment, options, () => driver.plan(deployment, options)),
    apply: (deployment, planId, options) =>
      bounded(deployment, options, () => protect(() => driver.apply(deployment, planId, options))),
    drift: (deployment, options) =>
      bounded(deployment, options, () => driver.drift(deployment, options)),
    sweep: (deployment, options) =>
      bounded(deployment, options, () => driver.sweep(deployment, options)),
    allocate: (clusterId, taken, brokers) => driver.allocate(clusterId, taken, brokers),
    isPrepared: (deployment) => driver.isPrepared(deployment),
    ensureRunning: (deployment, options) => driver.ensureRunning(deployment, options),
    waitReady: (deployment, options) => driver.waitReady(deployment, options),
    observe: (deployment, brokerId) => driver.observe(deployment, brokerId),
    lastExit: (clusterId, brokerId) => driver.lastExit(clusterId, brokerId),
    access: (deployment, brokerId) => driver.access(deployment, brokerId),
    restart: (deployment, options) => driver.restart(deployment, options),
    stop: (clusterId, options) => protect(() => driver.stop(clusterId, options)),
    destroy: (clusterId, options) => protect(() => driver.destroy(clusterId, options)),
    isDestroyed: (clusterId) => driver.isDestroyed(clusterId),
    list: () => driver.list(),
    maintain: (deployment) => driver.maintain(deployment),
    runLoad: (deployment, load, options) => driver.runLoad(deployment, load, options),
    endLoad: (topic) => driver.endLoad(topic),
  };
}
