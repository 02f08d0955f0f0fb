import type { ClusterDriver, RunOptions } from "@millrace/provisioner";

/** Takes turns: at most so many at the same time, the rest in the order in which they came. */
class Turns {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(max: number) {
    this.#free = max;
  }

  async run<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }

  async #turn(signal: AbortSignal | undefined): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(take), 1);
        reject(signal?.reason);
      };
      const take = () => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(take);
    });
  }
}

/**
 * A driver whose runs take turns: each run of Terraform is some hundred megabytes and a processor.
 * What only looks, or stops a broker, waits for nobody.
 */
export function boundedDriver(driver: ClusterDriver, runsMax: number): ClusterDriver {
  const turns = new Turns(runsMax);
  const bounded = <T>(options: RunOptions | undefined, work: () => Promise<T>) =>
    turns.run(options?.signal, work);
  return {
    name: driver.name,
    prepare: (deployment, options) => bounded(options, () => driver.prepare(deployment, options)),
    plan: (deployment, options) => bounded(options, () => driver.plan(deployment, options)),
    apply: (deployment, planId, options) =>
      bounded(options, () => driver.apply(deployment, planId, options)),
    drift: (deployment, options) => bounded(options, () => driver.drift(deployment, options)),
    sweep: (deployment, options) => bounded(options, () => driver.sweep(deployment, options)),
    allocate: (clusterId, taken) => driver.allocate(clusterId, taken),
    isPrepared: (deployment) => driver.isPrepared(deployment),
    ensureRunning: (deployment) => driver.ensureRunning(deployment),
    waitReady: (deployment, options) => driver.waitReady(deployment, options),
    observe: (deployment) => driver.observe(deployment),
    access: (deployment) => driver.access(deployment),
    stop: (clusterId, options) => driver.stop(clusterId, options),
    destroy: (clusterId) => driver.destroy(clusterId),
    isDestroyed: (clusterId) => driver.isDestroyed(clusterId),
    list: () => driver.list(),
    maintain: (clusterId) => driver.maintain(clusterId),
  };
}
