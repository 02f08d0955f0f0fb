import type {
  Operation,
  OperationEventKind,
  OperationFailure,
  OperationId,
  StepState,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import { OPERATION_CHANNEL, toOperation } from "./operation-repository.ts";

/**
 * The right to write to an operation: its attempt number at the time of the claim. A later claim
 * raises the number, and every write that carries an older one hits no row and throws `LeaseLost`.
 */
export interface Fence {
  readonly operationId: OperationId;
  readonly attempt: number;
}

/** Another worker has claimed the operation, or it is done: stop at once and change nothing more. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

export interface StepChange {
  readonly name: string;
  readonly state: StepState;
  readonly message?: string | undefined;
}

export interface Outcome {
  readonly phase: "SUCCEEDED" | "FAILED";
  readonly error?: OperationFailure;
}

/**
 * Writes of the operation engine. Leases are measured by the database's clock alone, so that two
 * workers whose clocks differ still agree on who holds an operation.
 */
export class OperationJournal {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * Takes the operation for `leaseMs`, if it is not done and nobody else's lease is running.
   * Undefined where it cannot be had.
   */
  async claim(id: OperationId, workerId: string, leaseMs: number): Promise<Operation | undefined> {
    const rows = await this.#client.$queryRaw<{ attempt: number }[]>`
      UPDATE operation
      SET attempt = attempt + 1, worker_id = ${workerId}, phase = 'RUNNING',
          lease_until = now() + ${leaseMs} * interval '1 millisecond',
          started_at = coalesce(started_at, now()), updated_at = now()
      WHERE id = ${id} AND NOT done AND (lease_until IS NULL OR lease_until < now())
      RETURNING attempt`;
    const attempt = rows[0]?.attempt;
    if (attempt === undefined) return undefined;
    const message = attempt === 1 ? "begun" : `resumed, attempt ${attempt}`;
    await this.#append({ operationId: id, attempt }, "operation.claimed", undefined, message);
    return this.#load(id);
  }

  /** Prolongs the lease. Throws `LeaseLost`. */
  async renew(fence: Fence, leaseMs: number): Promise<void> {
    const count = await this.#client.$executeRaw`
      UPDATE operation SET lease_until = now() + ${leaseMs} * interval '1 millisecond'
      WHERE id = ${fence.operationId} AND attempt = ${fence.attempt} AND NOT done`;
    if (count === 0) throw lost(fence);
  }

  /** Gives the operation back so that another worker can take it at once. */
  async release(fence: Fence): Promise<void> {
    await this.#client.$executeRaw`
      UPDATE operation SET lease_until = NULL, worker_id = NULL, updated_at = now()
      WHERE id = ${fence.operationId} AND attempt = ${fence.attempt} AND NOT done`;
  }

  /**
   * Checks the fence and keeps the operation's row locked until the transaction ends, so that what
   * else the transaction writes is written by the lease's holder. Throws `LeaseLost`.
   */
  async hold(fence: Fence): Promise<void> {
    const rows = await this.#client.$queryRaw<unknown[]>`
      SELECT 1 FROM operation
      WHERE id = ${fence.operationId} AND attempt = ${fence.attempt} AND NOT done FOR UPDATE`;
    if (rows.length === 0) throw lost(fence);
  }

  /** Changes a step and logs it. Throws `LeaseLost`. */
  async recordStep(fence: Fence, change: StepChange): Promise<void> {
    const begun = change.state === "RUNNING";
    await this.#append(fence, STEP_EVENTS[change.state], change.name, change.message ?? "");
    await this.#client.operationStep.update({
      where: { operationId_name: { operationId: fence.operationId, name: change.name } },
      data: {
        state: change.state,
        message: change.message ?? null,
        ...(begun
          ? { attempt: { increment: 1 }, startedAt: new Date(), endedAt: null }
          : { endedAt: new Date() }),
      },
    });
  }

  /** Ends the operation and logs it. Throws `LeaseLost`. */
  async complete(fence: Fence, outcome: Outcome): Promise<void> {
    const kind = outcome.phase === "SUCCEEDED" ? "operation.succeeded" : "operation.failed";
    await this.#append(fence, kind, outcome.error?.step, outcome.error?.message ?? "done");
    await this.#client.operation.update({
      where: { id: fence.operationId },
      data: {
        phase: outcome.phase,
        done: true,
        endedAt: new Date(),
        leaseUntil: null,
        workerId: null,
        errorCode: outcome.error?.code ?? null,
        errorMessage: outcome.error?.message ?? null,
        errorStep: outcome.error?.step ?? null,
      },
    });
  }

  /** Ids of operations that nobody works on, oldest first: new ones, and those of dead workers. */
  async unclaimed(limit: number): Promise<OperationId[]> {
    const rows = await this.#client.$queryRaw<{ id: string }[]>`
      SELECT id FROM operation
      WHERE NOT done AND (lease_until IS NULL OR lease_until < now())
      ORDER BY created_at LIMIT ${limit}`;
    return rows.map((row) => row.id as OperationId);
  }

  /** One event with the next seq; readers are woken when the transaction commits. */
  async #append(
    fence: Fence,
    kind: OperationEventKind,
    step: string | undefined,
    message: string,
  ): Promise<void> {
    const rows = await this.#client.$queryRaw<{ last_seq: number }[]>`
      UPDATE operation SET last_seq = last_seq + 1, updated_at = now()
      WHERE id = ${fence.operationId} AND attempt = ${fence.attempt} AND NOT done
      RETURNING last_seq`;
    const seq = rows[0]?.last_seq;
    if (seq === undefined) throw lost(fence);
    await this.#client.operationEvent.create({
      data: { operationId: fence.operationId, seq, kind, step: step ?? null, message },
    });
    await this.#client.$executeRaw`SELECT pg_notify(${OPERATION_CHANNEL}, ${fence.operationId})`;
  }

  async #load(id: OperationId): Promise<Operation> {
    const row = await this.#client.operation.findUniqueOrThrow({
      where: { id },
      include: { steps: { orderBy: { position: "asc" } } },
    });
    return toOperation(row);
  }
}

const STEP_EVENTS: Record<StepState, OperationEventKind> = {
  PENDING: "step.started",
  RUNNING: "step.started",
  SUCCEEDED: "step.succeeded",
  SKIPPED: "step.skipped",
  FAILED: "step.failed",
};

function lost(fence: Fence): LeaseLost {
  return new LeaseLost(`attempt ${fence.attempt} of ${fence.operationId} has lost its lease`);
}
