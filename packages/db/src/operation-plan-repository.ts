import type { OperationId } from "@millrace/domain";
import type { Client } from "./client.ts";
import type { Prisma } from "./generated/client.ts";

/** A plan as it is kept with its operation. `plan` and `cost` are plain JSON that others shape. */
export interface StoredPlan {
  /** Names the saved plan at the driver: what is applied is exactly it. */
  readonly planId: string;
  readonly digest: string;
  readonly plan: unknown;
  readonly cost: unknown;
  readonly createdAt: Date;
}

/** The newest plan of each operation. The caller has checked the tenant, or holds the operation. */
export class OperationPlanRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async get(operationId: OperationId): Promise<StoredPlan | undefined> {
    const row = await this.#client.operationPlan.findUnique({ where: { operationId } });
    if (!row) return undefined;
    const { planId, digest, plan, cost, createdAt } = row;
    return { planId, digest, plan, cost, createdAt };
  }

  async save(operationId: OperationId, stored: Omit<StoredPlan, "createdAt">): Promise<void> {
    const data = {
      planId: stored.planId,
      digest: stored.digest,
      plan: stored.plan as Prisma.InputJsonValue,
      ...(stored.cost != null && { cost: stored.cost as Prisma.InputJsonValue }),
      createdAt: new Date(),
    };
    await this.#client.operationPlan.upsert({
      where: { operationId },
      create: { operationId, ...data },
      update: data,
    });
  }
}
