/**
 * Changes of a cluster of several brokers: one broker at a time, and only while all the others serve, so that clients
 * notice no more than a redirect.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { BrokerError } from "@millrace/broker-admin";
import { type ClusterMember, systemClock } from "@millrace/domain";
import type { RunOptions } from "../change-plan.ts";
import { type ClusterDeployment, ProvisionError, type WaitOptions } from "../cluster-driver.ts";
import { type LocalBroker, READY_TIMEOUT_MS, stopOptions } from "./local-broker.ts";
import { needsRestart } from "./local-plan.ts";

export interface SeveralBrokersOptions {
  readonly deployment: ClusterDeployment;
  /** One for each broker of the deployment. */
  readonly brokers: readonly LocalBroker[];
  /** Runs a change of one broker while nobody else changes it. */
  readonly exclusively: (broker: LocalBroker, work: () => Promise<void>) => Promise<void>;
}

/** All partitions of a broker move within this: each in a moment, 200 at a time. */
const DRAIN_TIMEOUT_MS = 5 * 60_000;
/** What a broker could not upload when it stopped, the others take over once its lease has run out. */
const LEFT_TIMEOUT_MS = 2 * 60_000;
const POLL_MS = 200;
/** Clients pause before they connect again. They must have found a broker that is back before the next one stops. */
const BETWEEN_RESTARTS_MS = 3_000;

export class SeveralBrokers {
  readonly #deployment: ClusterDeployment;
  readonly #brokers: readonly LocalBroker[];
  readonly #exclusively: SeveralBrokersOptions["exclusively"];

  constructor({ deployment, brokers, exclusively }: SeveralBrokersOptions) {
    this.#deployment = deployment;
    this.#brokers = brokers;
    this.#exclusively = exclusively;
  }

  /**
   * Makes all brokers as the deployment says. New ones start first; then brokers that need it restart. Throws
   * `ProvisionError` `start_failed` or `not_ready_in_time` where a broker does not serve, `aborted` where the signal of the
   * options ends the wait: the next ones stay as they are.
   */
  async apply(options: RunOptions): Promise<void> {
    const restarts: LocalBroker[] = [];
    for (const broker of this.#brokers) {
      const planned = await broker.planned(this.#deployment);
      if (needsRestart(planned)) {
        restarts.push(broker);
        continue;
      }
      if (!planned.state.running) tell(options, `starting broker ${broker.id}`);
      await this.#exclusively(broker, async () => {
        await broker.write(this.#deployment, options);
        await broker.start(this.#deployment);
      });
    }
    await this.#restartAll(restarts, options);
    await this.waitServing(this.#brokers, stopOptions(options));
  }

  /** Restarts these brokers, one after the other. Throws as `apply` does. */
  async restart(brokers: readonly LocalBroker[], options: RunOptions): Promise<void> {
    await this.#restartAll(brokers, options);
  }

  async #restartAll(brokers: readonly LocalBroker[], options: RunOptions): Promise<void> {
    for (const [index, broker] of brokers.entries()) {
      const others = this.#brokers.filter((other) => other !== broker);
      if (index > 0) await pause(options.signal, BETWEEN_RESTARTS_MS);
      await this.waitServing(others, stopOptions(options));
      tell(options, `restarting broker ${broker.id} (${index + 1} of ${brokers.length})`);
      await this.#exclusively(broker, async () => {
        await broker.stop(stopOptions(options));
        await broker.write(this.#deployment, options);
        await broker.start(this.#deployment);
      });
      await this.waitServing([broker], stopOptions(options));
      tell(options, `broker ${broker.id} serves`);
    }
  }

  /**
   * Gives away what a broker leads and stops it; nothing of it is needed any more when this returns. Throws
   * `ProvisionError` `not_drained_in_time`, `aborted`.
   */
  async retire(broker: LocalBroker, options: RunOptions): Promise<void> {
    if (broker.isRunning()) {
      await this.waitServing(this.#brokers, stopOptions(options));
      tell(options, `moving the partitions of broker ${broker.id} to the others`);
      await this.#drain(broker, options);
      tell(options, `stopping broker ${broker.id}`);
      await this.#exclusively(broker, () => broker.stop(stopOptions(options)));
    }
    const message = `broker ${broker.id} has stopped, and the others have not taken over all of its log yet: nothing of it was removed`;
    const hasLeft = (member: ClusterMember | undefined) => (member?.state ?? "left") === "left";
    await this.#untilMember(broker, hasLeft, { timeoutMs: LEFT_TIMEOUT_MS, message, options });
  }

  async #drain(broker: LocalBroker, options: RunOptions): Promise<void> {
    const isDrained = (member: ClusterMember | undefined) =>
      member === undefined || !isServing(member) || member.leaders === 0;
    const known = (await this.#members()).find(({ brokerId }) => brokerId === broker.id);
    // A broker that is no member leads nothing, and could not be asked to give anything away.
    if (known === undefined || !isServing(known)) return;
    if (known.state === "active") await this.#anyOf((http) => http.drain(broker.id));
    const message = `broker ${broker.id} still leads partitions`;
    await this.#untilMember(broker, isDrained, { timeoutMs: DRAIN_TIMEOUT_MS, message, options });
  }

  /**
   * Waits until these brokers serve and are active members of the cluster. Throws `ProvisionError` `start_failed` at once
   * when one's process ends, `not_ready_in_time` at the timeout, `aborted`.
   */
  async waitServing(brokers: readonly LocalBroker[], options: WaitOptions = {}): Promise<void> {
    const timeoutMs = options.timeoutMs ?? READY_TIMEOUT_MS;
    const deadline = performance.now() + timeoutMs;
    for (const broker of brokers) {
      const left = Math.max(deadline - performance.now(), 0);
      await broker.waitReady(this.#deployment, { ...options, timeoutMs: Math.ceil(left) });
    }
    for (;;) {
      const members = await this.#members();
      const missing = brokers.find(
        ({ id }) => members.find(({ brokerId }) => brokerId === id)?.state !== "active",
      );
      if (missing === undefined) return;
      if (performance.now() >= deadline) {
        const message = `broker ${missing.id} did not join the cluster within ${timeoutMs} ms`;
        throw new ProvisionError("not_ready_in_time", message);
      }
      await pause(options.signal);
    }
  }

  async #untilMember(
    { id }: LocalBroker,
    isDone: (member: ClusterMember | undefined) => boolean,
    { timeoutMs, message, options }: { timeoutMs: number; message: string; options: RunOptions },
  ): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const members = await this.#members();
      // Without an answer nothing is known of it.
      if (members.length > 0 && isDone(members.find(({ brokerId }) => brokerId === id))) return;
      if (performance.now() >= deadline) throw new ProvisionError("not_drained_in_time", message);
      await pause(options.signal);
    }
  }

  /** As a broker that answers knows them; empty where none does. */
  async #members(): Promise<readonly ClusterMember[]> {
    try {
      return (await this.#anyOf((http) => http.cluster())).members;
    } catch (error) {
      if (error instanceof BrokerError) return [];
      throw error;
    }
  }

  /** Throws the last broker's `BrokerError` where none answers. */
  async #anyOf<T>(ask: (http: Awaited<ReturnType<LocalBroker["http"]>>) => Promise<T>): Promise<T> {
    let failure: unknown;
    for (const broker of this.#brokers) {
      if (!broker.isRunning()) continue;
      try {
        return await ask(await broker.http(this.#deployment));
      } catch (error) {
        if (!(error instanceof BrokerError)) throw error;
        failure = error;
      }
    }
    throw failure ?? new BrokerError("unreachable", "no broker of the cluster runs");
  }
}

function isServing({ state }: ClusterMember): boolean {
  return state === "active" || state === "draining";
}

/** Throws `ProvisionError` `aborted`. */
async function pause(signal: AbortSignal | undefined, ms = POLL_MS): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (cause) {
    throw new ProvisionError("aborted", "waiting for the brokers was aborted", { cause });
  }
}

function tell({ onEvent }: RunOptions, message: string): void {
  onEvent?.({ at: systemClock.now().getTime(), level: "info", kind: "run", message });
}
