import type { Database, MetricReadings } from "@millrace/db";
import type { OrganizationId } from "@millrace/domain";

interface Waiting {
  readonly readings: readonly MetricReadings[];
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Stores readings of many clusters in few transactions: what comes while an organization's transaction is under way goes into
 * its next one.
 */
export class ReadingWriter {
  readonly #db: Pick<Database, "tenant">;
  /** Per organization with a transaction under way. */
  readonly #waiting = new Map<OrganizationId, Waiting[]>();

  constructor(db: Pick<Database, "tenant">) {
    this.#db = db;
  }

  /** Resolves once they are stored. Rejects where these, and not others' in the same transaction, cannot be. */
  add(organizationId: OrganizationId, readings: readonly MetricReadings[]): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(organizationId);
    const own = { readings, resolve, reject };
    if (waiting) waiting.push(own);
    else void this.#writeAll(organizationId, own);
    return promise;
  }

  async #writeAll(organizationId: OrganizationId, first: Waiting): Promise<void> {
    let batch = [first];
    while (batch.length > 0) {
      this.#waiting.set(organizationId, []);
      await this.#write(organizationId, batch);
      batch = this.#waiting.get(organizationId) ?? [];
    }
    this.#waiting.delete(organizationId);
  }

  /** Never rejects. */
  async #write(organizationId: OrganizationId, batch: readonly Waiting[]): Promise<void> {
    try {
      const { metrics } = this.#db.tenant(organizationId);
      await metrics.add(batch.flatMap(({ readings }) => readings));
      for (const { resolve } of batch) resolve();
    } catch (error) {
      if (batch.length === 1) return batch[0]?.reject(error);
      // One cluster, deleted meanwhile, must not cost the others' readings.
      for (const each of batch) await this.#write(organizationId, [each]);
    }
  }
}
