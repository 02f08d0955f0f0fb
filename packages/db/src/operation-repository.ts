import {
  type Approval,
  type Changer,
  type ClusterId,
  type ClusterProvider,
  DomainError,
  type ErrorCode,
  isObservation,
  type LogLevel,
  newId,
  OPERATION_KINDS,
  type Operation,
  type OperationEvent,
  type OperationEventKind,
  type OperationId,
  type OperationKind,
  type OperationParameters,
  type OperationPhase,
  type OperationStep,
  type OrganizationId,
  providerOf,
  type Region,
  type StepName,
  type StepState,
  stepsOf,
} from "@millrace/domain";
import { brokenUniqueRule, type Client } from "./client.ts";
import type {
  OperationEvent as EventRow,
  Prisma,
  OperationStep as StepRow,
} from "./generated/client.ts";
import { appendEvents } from "./operation-events.ts";
import { olderThan, type Page, type PageRequest, pageOf } from "./page.ts";

type OperationRow = Prisma.OperationGetPayload<{ include: { steps: true } }>;

const WITH_STEPS = { steps: { orderBy: { position: "asc" } } } as const;
/** Whoever asks for a cluster's last operation means the last that changed something. */
const NO_LOOK = { notIn: OPERATION_KINDS.filter(isObservation) };

/** Operations and their events as callers read them. Writes of the engine: `OperationJournal`. */
export class OperationRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** A PENDING operation with its first event. Throws `cluster_busy` while another one runs. */
  async create(request: {
    organizationId: OrganizationId;
    clusterId: ClusterId;
    kind: OperationKind;
    parameters?: OperationParameters;
    createdBy?: Changer | undefined;
  }): Promise<Operation> {
    const provider = await this.#providerOf(request.clusterId);
    await this.refuseBusy(request.clusterId);
    try {
      const row = await this.#client.operation.create({
        data: {
          id: newId("op"),
          organizationId: request.organizationId,
          clusterId: request.clusterId,
          kind: request.kind,
          provider,
          // JSON has no `undefined`; what is absent stays so.
          parameters: JSON.parse(
            JSON.stringify(request.parameters ?? {}),
          ) as Prisma.InputJsonObject,
          ...(request.createdBy && { createdBy: { ...request.createdBy } }),
          phase: "PENDING" satisfies OperationPhase,
          lastSeq: 1,
          steps: {
            create: stepsOf(request.kind, provider).map((step, position) => ({
              position,
              name: step.name,
              state: "PENDING" satisfies StepState,
            })),
          },
          events: { create: { seq: 1, kind: "operation.created", message: "accepted" } },
        },
        include: WITH_STEPS,
      });
      return toOperation(row);
    } catch (error) {
      if (brokenUniqueRule(error) === undefined) throw error;
      throw clusterBusy(undefined, error);
    }
  }

  /** The operation of the cluster that is not done. */
  async underWay(clusterId: ClusterId): Promise<Operation | undefined> {
    const where = { clusterId, done: false };
    const row = await this.#client.operation.findFirst({ where, include: WITH_STEPS });
    return row ? toOperation(row) : undefined;
  }

  /** `underWay` of each of these clusters that has one. */
  async underWayOf(clusterIds: readonly ClusterId[]): Promise<Map<ClusterId, Operation>> {
    const where = { clusterId: { in: [...clusterIds] }, done: false };
    const rows = await this.#client.operation.findMany({ where, include: WITH_STEPS });
    return new Map(rows.map((row) => [row.clusterId as ClusterId, toOperation(row)]));
  }

  /**
   * Removes drift checks that were done before `before`, at most `limit`, with all that was kept
   * of them; not those that a cluster's drift refers to.
   */
  async deleteOldDriftChecks(before: Date, limit: number): Promise<number> {
    return this.#client.$executeRaw`
      DELETE FROM operation WHERE id IN (
        SELECT id FROM operation
        WHERE kind = 'cluster.check_drift' AND done AND created_at < ${before}
          AND NOT EXISTS (SELECT 1 FROM cluster
            WHERE cluster.id = operation.cluster_id AND drift_operation_id = operation.id)
        ORDER BY created_at LIMIT ${limit})`;
  }

  /** Every tenant's operations of this kind that are not done. */
  async countUnderWay(kind: OperationKind): Promise<number> {
    const [row] = await this.#client.$queryRaw<{ count: bigint }[]>`
      SELECT count FROM operations_under_way(${kind})`;
    return Number(row?.count ?? 0);
  }

  /** Throws `cluster_busy`, with the operation's id, while one is not done. */
  async refuseBusy(clusterId: ClusterId): Promise<void> {
    const busy = await this.#client.operation.findFirst({ where: { clusterId, done: false } });
    if (busy) throw clusterBusy(busy);
  }

  async get(organizationId: OrganizationId, id: OperationId): Promise<Operation | undefined> {
    const where = { id, organizationId };
    const row = await this.#client.operation.findFirst({ where, include: WITH_STEPS });
    return row ? toOperation(row) : undefined;
  }

  /** The operation, whatever its cluster. */
  async load(id: OperationId): Promise<Operation | undefined> {
    const row = await this.#client.operation.findUnique({ where: { id }, include: WITH_STEPS });
    return row ? toOperation(row) : undefined;
  }

  /** Newest first. */
  async list(
    organizationId: OrganizationId,
    page: PageRequest,
    filter: { clusterId?: ClusterId | undefined } = {},
  ): Promise<Page<Operation>> {
    const rows = await this.#client.operation.findMany({
      where: {
        organizationId,
        ...(filter.clusterId && { clusterId: filter.clusterId }),
        ...olderThan(page.after),
      },
      include: WITH_STEPS,
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toOperation);
  }

  /**
   * Asks for the end of an operation. One that nobody works at is CANCELLED at once; a worker ends
   * the others at the next safe point. Undefined where the operation is done already. The caller has
   * checked the tenant, and calls this in a transaction.
   */
  async requestCancel(id: OperationId): Promise<"cancelled" | "asked" | undefined> {
    const [row] = await this.#client.$queryRaw<{ idle: boolean }[]>`
      SELECT (phase IN ('PENDING', 'WAITING') AND (lease_until IS NULL OR lease_until < now())) AS idle
      FROM operation WHERE id = ${id} AND NOT done FOR UPDATE`;
    if (!row) return undefined;
    const asked = {
      kind: "operation.cancel_requested",
      message: "cancellation requested",
    } as const;
    const ended = { kind: "operation.cancelled", message: "cancelled" } as const;
    await appendEvents(this.#client, id, row.idle ? [asked, ended] : [asked]);
    const now = new Date();
    await this.#client.operation.update({
      where: { id },
      data: {
        cancelRequestedAt: now,
        ...(row.idle && { phase: "CANCELLED" satisfies OperationPhase, done: true, endedAt: now }),
      },
    });
    return row.idle ? "cancelled" : "asked";
  }

  /**
   * Approves the plan of a WAITING operation and has it go on: deliver it in the same transaction.
   * False where it does not wait.
   */
  async approve(id: OperationId, digest: string, by: Changer): Promise<boolean> {
    const event = {
      kind: "operation.approved",
      message: `approved by ${by.name || by.id}`,
    } as const;
    const { count } = await this.#client.operation.updateMany({
      where: { id, phase: "WAITING" satisfies OperationPhase, done: false },
      data: {
        phase: "PENDING" satisfies OperationPhase,
        approvedDigest: digest,
        approvedBy: by.id,
        approvedAt: new Date(),
      },
    });
    if (count === 0) return false;
    await appendEvents(this.#client, id, [event]);
    // The step ends with this text when the operation goes on.
    await this.#client.operationStep.updateMany({
      where: { operationId: id, name: "approve" satisfies StepName },
      data: { message: event.message },
    });
    return true;
  }

  /**
   * Opens an operation that FAILED or was CANCELLED again, so that it goes on from the first step
   * that is not done: deliver it in the same transaction. False where it is neither. Throws
   * `cluster_busy` while another operation runs.
   */
  async reopen(id: OperationId): Promise<boolean> {
    try {
      const { count } = await this.#client.operation.updateMany({
        where: {
          id,
          done: true,
          phase: { in: ["FAILED", "CANCELLED"] satisfies OperationPhase[] },
        },
        data: {
          ...{ phase: "PENDING" satisfies OperationPhase, done: false, endedAt: null },
          ...{ errorCode: null, errorMessage: null, errorStep: null, cancelRequestedAt: null },
          ...{ leaseUntil: null, workerId: null },
        },
      });
      if (count === 0) return false;
    } catch (error) {
      if (brokenUniqueRule(error) === undefined) throw error;
      throw clusterBusy(undefined, error);
    }
    await this.#client.operationStep.updateMany({
      where: { operationId: id, state: { in: ["RUNNING", "FAILED"] satisfies StepState[] } },
      data: { state: "PENDING" satisfies StepState, endedAt: null, message: null },
    });
    await appendEvents(this.#client, id, [{ kind: "operation.retried", message: "retried" }]);
    return true;
  }

  /** Operations that have waited for an approval since before `since`. */
  async waitingSince(since: Date, limit: number): Promise<Operation[]> {
    const rows = await this.#client.operation.findMany({
      where: { phase: "WAITING" satisfies OperationPhase, done: false, updatedAt: { lt: since } },
      include: WITH_STEPS,
      orderBy: { updatedAt: "asc" },
      take: limit,
    });
    return rows.map(toOperation);
  }

  /** The newest operation of the cluster, of this kind or of any that changes the cluster. */
  async latest(clusterId: ClusterId, kind?: OperationKind): Promise<Operation | undefined> {
    const row = await this.#client.operation.findFirst({
      where: { clusterId, kind: kind ?? NO_LOOK },
      include: WITH_STEPS,
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
    });
    return row ? toOperation(row) : undefined;
  }

  /** Whether a broker of the cluster was ever begun, and then waited for. */
  async awaitedBroker(clusterId: ClusterId): Promise<boolean> {
    const name = "wait_until_healthy" satisfies StepName;
    const step = await this.#client.operationStep.findFirst({
      where: { name, attempt: { gt: 0 }, operation: { clusterId } },
      select: { position: true },
    });
    return step !== null;
  }

  /** Id of the newest operation of each of these clusters that changed it: drift checks and benchmarks do not. */
  async latestOf(clusterIds: readonly ClusterId[]): Promise<Map<ClusterId, OperationId>> {
    // Prisma's `distinct` would read all of their operations.
    const rows = await this.#client.$queryRaw<{ clusterId: ClusterId; id: OperationId }[]>`
      SELECT asked.id AS "clusterId", newest.id
      FROM unnest(${[...clusterIds]}::text[]) AS asked (id), LATERAL (
        SELECT id FROM operation
        WHERE cluster_id = asked.id AND kind <> ALL(${NO_LOOK.notIn}::text[])
        ORDER BY created_at DESC, id DESC LIMIT 1) AS newest`;
    return new Map(rows.map(({ clusterId, id }) => [clusterId, id]));
  }

  async #providerOf(clusterId: ClusterId): Promise<ClusterProvider> {
    const where = { id: clusterId };
    const row = await this.#client.cluster.findUniqueOrThrow({ where, select: { region: true } });
    return providerOf(row.region as Region);
  }

  /** Events after `afterSeq` in order, at most `limit`. The caller has checked the tenant. */
  async events(id: OperationId, afterSeq: number, limit: number): Promise<OperationEvent[]> {
    const rows = await this.#client.operationEvent.findMany({
      where: { operationId: id, seq: { gt: afterSeq } },
      orderBy: { seq: "asc" },
      take: limit,
    });
    return rows.map(toEvent);
  }
}

function clusterBusy(
  busy: Pick<OperationRow, "id" | "phase"> | undefined,
  cause?: unknown,
): DomainError {
  const which = busy === undefined ? "Another operation" : `Operation ${busy.id}`;
  if (busy?.phase === ("WAITING" satisfies OperationPhase)) {
    return new DomainError("cluster_busy", `${which} on this cluster is waiting for approval.`, {
      remedy: "Approve or cancel it, then try again.",
      retryAfterSeconds: 30,
    });
  }
  return new DomainError("cluster_busy", `${which} is running on this cluster.`, {
    remedy: "Wait until it is done, then try again.",
    retryAfterSeconds: 5,
    cause,
  });
}

function toStep(row: StepRow): OperationStep {
  return {
    name: row.name,
    state: row.state as StepState,
    attempt: row.attempt,
    startedAt: row.startedAt ?? undefined,
    endedAt: row.endedAt ?? undefined,
    message: row.message ?? undefined,
  };
}

function toApproval(row: OperationRow): Approval | undefined {
  if (row.approvedDigest === null || row.approvedAt === null) return undefined;
  const { approvedDigest: digest, approvedBy, approvedAt } = row;
  return { digest, approvedBy: approvedBy ?? "", approvedAt };
}

export function toOperation(row: OperationRow): Operation {
  return {
    id: row.id as OperationId,
    organizationId: row.organizationId as OrganizationId,
    clusterId: row.clusterId as ClusterId,
    kind: row.kind as OperationKind,
    provider: row.provider as ClusterProvider,
    parameters: row.parameters as OperationParameters,
    approval: toApproval(row),
    createdBy: (row.createdBy as Changer | null) ?? undefined,
    cancelRequestedAt: row.cancelRequestedAt ?? undefined,
    phase: row.phase as OperationPhase,
    done: row.done,
    attempt: row.attempt,
    steps: row.steps.map(toStep),
    error:
      row.errorCode === null
        ? undefined
        : {
            code: row.errorCode as ErrorCode,
            message: row.errorMessage ?? "",
            step: row.errorStep ?? undefined,
          },
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
    startedAt: row.startedAt ?? undefined,
    endedAt: row.endedAt ?? undefined,
  };
}

function toEvent(row: EventRow): OperationEvent {
  return {
    operationId: row.operationId as OperationId,
    seq: row.seq,
    at: row.at,
    kind: row.kind as OperationEventKind,
    step: row.step ?? undefined,
    message: row.message,
    level: (row.level as LogLevel | null) ?? undefined,
    address: row.address ?? undefined,
  };
}
