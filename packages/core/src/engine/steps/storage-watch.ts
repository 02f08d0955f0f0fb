import { setTimeout as sleep } from "node:timers/promises";
import { type BrokerStorage, benchmarkStopReason, brokerIdsOf } from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";
import type { StepContext } from "../workflow.ts";
import { deployment } from "./deployment.ts";

/** While the load runs, the broker's log is looked at this often. */
const STORAGE_INTERVAL_MS = 500;
/** A look that takes longer tells nothing. */
const STORAGE_LOOK_MAX_MS = 500;
/** A load does not go on without knowing more than so many times in a row. */
const UNKNOWN_LOOKS_MAX = 3;
const UNKNOWN_REASON =
  "Stopped to protect other clients: the broker no longer reports how full its write-ahead log is. " +
  "Run it again at a lower rate.";

/** Looks at the broker's log while a load runs, and stops the load before other clients have to wait. */
export class StorageWatch {
  readonly #abort = new AbortController();
  readonly #ending = new AbortController();
  readonly #loop: Promise<void>;

  constructor(context: StepContext) {
    this.#loop = this.#watch(context);
  }

  /** Aborts with a `ProvisionError` `benchmark_failed`. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async end(): Promise<void> {
    this.#ending.abort();
    await this.#loop;
  }

  async #watch(context: StepContext): Promise<void> {
    const { signal } = this.#ending;
    let unknown = 0;
    while (!signal.aborted) {
      const storage = await this.#look(context);
      unknown = storage === undefined ? unknown + 1 : 0;
      const reason = storage === undefined ? undefined : benchmarkStopReason(storage);
      if (reason !== undefined || unknown === UNKNOWN_LOOKS_MAX) {
        const message = reason ?? UNKNOWN_REASON;
        this.#abort.abort(new ProvisionError("benchmark_failed", message));
        return;
      }
      // Nobody knows how full the log is: look again at once.
      if (unknown > 0) continue;
      await sleep(STORAGE_INTERVAL_MS, undefined, { signal }).catch(() => {});
    }
  }

  /** Undefined where the broker does not answer in time. Takes as long as a look may. */
  async #look(context: StepContext): Promise<BrokerStorage | undefined> {
    const { tools, operation } = context;
    const { signal } = this.#ending;
    const late = sleep(STORAGE_LOOK_MAX_MS, undefined, { signal }).catch(() => {});
    const asked = storageOf(context).catch(async (err: unknown) => {
      tools.log.warn({ operation: operation.id, err }, "a broker's storage is unknown");
      await late;
    });
    return (await Promise.race([asked, late])) ?? undefined;
  }
}

/** What brokers report of their storage now: that of the fullest log. One that does not answer may be that one. */
export async function storageOf(context: StepContext): Promise<BrokerStorage> {
  const all = await Promise.all(
    brokerIdsOf(context.cluster).map(async (brokerId) => {
      return context.tools.storage(await context.driver.access(deployment(context), brokerId));
    }),
  );
  const fill = ({ walUsedBytes, walCapacityBytes }: BrokerStorage) =>
    walUsedBytes / walCapacityBytes;
  return all.reduce((most, each) => (fill(each) > fill(most) ? each : most));
}
