import {
  type ClusterProvider,
  type LogLevel,
  OPERATION_LOG_EVENTS_MAX,
  type Operation,
  type OperationEventKind,
  type OperationFailure,
  type OperationId,
  type OrganizationId,
  type StepState,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import { appendEvents, type NewEvent } from "./operation-events.ts";
import { toOperation } from "./operation-repository.ts";

/**
 * The right to write to an operation: its attempt number at the time of the claim. A later claim
 * raises the number, and every write that carries an older one hits no row and throws `LeaseLost`.
 */
export interface Fence {
  readonly operationId: OperationId;
  readonly attempt: number;
}

/** Another worker may have claimed the operation, or it is done or given back: stop at once and change nothing more. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

export interface UnclaimedOperation {
  readonly id: OperationId;
  readonly organizationId: OrganizationId;
}

export interface StepChange {
  readonly name: string;
  readonly state: StepState;
  readonly message?: string | undefined;
}

/** A line of what a step runs. */
export interface LogLine {
  readonly at: Date;
  readonly level: LogLevel;
  readonly step: string;
  readonly address?: string | undefined;
  readonly message: string;
}

export interface Outcome {
  readonly phase: "SUCCEEDED" | "FAILED" | "CANCELLED";
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
   * Takes the operation for `leaseMs`, if it is not done, does not wait for an approval, and nobody
   * else's lease is running. Undefined where it cannot be had.
   */
  async claim(id: OperationId, workerId: string, leaseMs: number): Promise<Operation | undefined> {
    const rows = await this.#client.$queryRaw<{ attempt: number }[]>`
      UPDATE operation
      SET attempt = attempt + 1, worker_id = ${workerId}, phase = 'RUNNING',
          lease_until = now() + ${leaseMs} * interval '1 millisecond',
          started_at = coalesce(started_at, now()), updated_at = now()
      WHERE id = ${id} AND NOT done AND phase <> 'WAITING'
        AND (lease_until IS NULL OR lease_until < now())
      RETURNING attempt`;
    const attempt = rows[0]?.attempt;
    if (attempt === undefined) return undefined;
    const message = attempt === 1 ? "started" : `resumed, attempt ${attempt}`;
    await this.#append({ operationId: id, attempt }, { kind: "operation.claimed", message });
    return this.#load(id);
  }

  /**
   * Prolongs the lease. Throws `LeaseLost`, also where this attempt has given the operation back: a renewal
   * can be under way meanwhile, and must not keep the operation from the next worker.
   */
  async renew(fence: Fence, leaseMs: number): Promise<void> {
    const count = await this.#client.$executeRaw`
      UPDATE operation SET lease_until = now() + ${leaseMs} * interval '1 millisecond'
      WHERE id = ${fence.operationId} AND attempt = ${fence.attempt} AND NOT done
        AND worker_id IS NOT NULL`;
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

  /**
   * Adds lines to the log, as long as the operation has not had its share of them: the first that
   * is too many is replaced by a note, the rest are counted. Throws `LeaseLost`.
   */
  async log(fence: Fence, lines: readonly LogLine[]): Promise<void> {
    const rows = await this.#client.$queryRaw<{ log_lines: number }[]>`
      UPDATE operation SET log_lines = log_lines + ${lines.length}
      WHERE id = ${fence.operationId} AND attempt = ${fence.attempt} AND NOT done
      RETURNING log_lines`;
    const now = rows[0]?.log_lines;
    if (now === undefined) throw lost(fence);
    const room = Math.max(0, OPERATION_LOG_EVENTS_MAX - (now - lines.length));
    const events: NewEvent[] = lines.slice(0, room).map((line) => ({ kind: "log", ...line }));
    if (room > 0 && now > OPERATION_LOG_EVENTS_MAX) {
      const message = `more than ${OPERATION_LOG_EVENTS_MAX} lines: those that follow are not kept`;
      events.push({ kind: "log", level: "warning", step: lines[0]?.step, message });
    }
    if (!(await appendEvents(this.#client, fence.operationId, events, fence.attempt))) {
      throw lost(fence);
    }
  }

  /** Gives the operation back until somebody approves its plan. Throws `LeaseLost`. */
  async waitForApproval(fence: Fence, message: string): Promise<void> {
    await this.#append(fence, { kind: "operation.waiting", message });
    await this.#client.$executeRaw`
      UPDATE operation SET phase = 'WAITING', lease_until = NULL, worker_id = NULL
      WHERE id = ${fence.operationId}`;
  }

  /** Has these steps done again. Throws `LeaseLost`. */
  async repeat(fence: Fence, names: readonly string[]): Promise<void> {
    await this.hold(fence);
    await this.#client.operationStep.updateMany({
      where: { operationId: fence.operationId, name: { in: [...names] } },
      data: { state: "PENDING" satisfies StepState, endedAt: null, message: null },
    });
  }

  /** The approval now stands for the plan of that digest, or for none. Within `hold`. */
  async carryApproval(fence: Fence, digest: string | undefined): Promise<void> {
    await this.#client.operation.update({
      where: { id: fence.operationId },
      data:
        digest === undefined
          ? { approvedDigest: null, approvedBy: null, approvedAt: null }
          : { approvedDigest: digest },
    });
  }

  /** Changes a step and logs it. Throws `LeaseLost`. */
  async recordStep(fence: Fence, change: StepChange): Promise<void> {
    const begun = change.state === "RUNNING";
    await this.#append(fence, {
      kind: STEP_EVENTS[change.state],
      step: change.name,
      message: change.message ?? "",
    });
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
    await this.#append(fence, {
      kind: OUTCOME_EVENTS[outcome.phase],
      step: outcome.error?.step,
      message: outcome.error?.message ?? OUTCOME_MESSAGES[outcome.phase],
    });
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

  /**
   * A provider's operations that nobody works on: new ones, and those of dead workers. Organizations
   * take turns, each with what it has waited for longest: the first of one comes before the second of
   * another, and what is being worked on counts as what it has had.
   */
  async unclaimed(limit: number, provider: ClusterProvider): Promise<UnclaimedOperation[]> {
    return this.#client.$queryRaw<UnclaimedOperation[]>`
      WITH held AS (
        SELECT organization_id, count(*) AS held FROM operation
        WHERE NOT done AND phase <> 'WAITING' AND lease_until >= now() AND provider = ${provider}
        GROUP BY organization_id),
      waiting AS (
        SELECT id, organization_id, updated_at, coalesce(held, 0) + row_number() OVER (
          PARTITION BY organization_id ORDER BY updated_at, id) AS turn
        FROM operation LEFT JOIN held USING (organization_id)
        WHERE NOT done AND phase <> 'WAITING' AND (lease_until IS NULL OR lease_until < now())
          AND provider = ${provider})
      SELECT id, organization_id AS "organizationId" FROM waiting
      ORDER BY turn, updated_at, id LIMIT ${limit}`;
  }

  /** Where the operation's cluster runs; undefined where there is no such operation. */
  async providerOf(id: OperationId): Promise<ClusterProvider | undefined> {
    const row = await this.#client.operation.findUnique({
      where: { id },
      select: { provider: true },
    });
    return row?.provider as ClusterProvider | undefined;
  }

  async #append(fence: Fence, event: NewEvent): Promise<void> {
    const added = await appendEvents(this.#client, fence.operationId, [event], fence.attempt);
    if (!added) throw lost(fence);
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

const OUTCOME_EVENTS: Record<Outcome["phase"], OperationEventKind> = {
  SUCCEEDED: "operation.succeeded",
  FAILED: "operation.failed",
  CANCELLED: "operation.cancelled",
};

const OUTCOME_MESSAGES: Record<Outcome["phase"], string> = {
  SUCCEEDED: "done",
  FAILED: "failed",
  CANCELLED: "cancelled",
};

function lost(fence: Fence): LeaseLost {
  return new LeaseLost(`attempt ${fence.attempt} of ${fence.operationId} has lost its lease`);
}
