import {
  type ClusterId,
  DomainError,
  type ErrorCode,
  newId,
  type Operation,
  type OperationEvent,
  type OperationEventKind,
  type OperationId,
  type OperationKind,
  type OperationPhase,
  type OperationStep,
  type OrganizationId,
  type StepState,
  stepsOf,
} from "@millrace/domain";
import { brokenUniqueRule, type Client } from "./client.ts";
import type {
  OperationEvent as EventRow,
  Prisma,
  OperationStep as StepRow,
} from "./generated/client.ts";
import { olderThan, type Page, type PageRequest, pageOf } from "./page.ts";

type OperationRow = Prisma.OperationGetPayload<{ include: { steps: true } }>;

const WITH_STEPS = { steps: { orderBy: { position: "asc" } } } as const;

/** PostgreSQL channel on which the id of an operation is announced whenever it has a new event. */
export const OPERATION_CHANNEL = "millrace_operation";

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
  }): Promise<Operation> {
    const busy = await this.#client.operation.findFirst({
      where: { clusterId: request.clusterId, done: false },
    });
    if (busy) throw clusterBusy(busy.id);
    try {
      const row = await this.#client.operation.create({
        data: {
          id: newId("op"),
          ...request,
          phase: "PENDING" satisfies OperationPhase,
          lastSeq: 1,
          steps: {
            create: stepsOf(request.kind).map((step, position) => ({
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

  async get(organizationId: OrganizationId, id: OperationId): Promise<Operation | undefined> {
    const where = { id, organizationId };
    const row = await this.#client.operation.findFirst({ where, include: WITH_STEPS });
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

  /** Id of the newest operation of each of these clusters. */
  async latestOf(clusterIds: readonly ClusterId[]): Promise<Map<ClusterId, OperationId>> {
    const rows = await this.#client.operation.findMany({
      where: { clusterId: { in: [...clusterIds] } },
      orderBy: [{ clusterId: "asc" }, { createdAt: "desc" }, { id: "desc" }],
      distinct: ["clusterId"],
      select: { clusterId: true, id: true },
    });
    return new Map(rows.map((row) => [row.clusterId as ClusterId, row.id as OperationId]));
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

function clusterBusy(operationId: string | undefined, cause?: unknown): DomainError {
  const which = operationId === undefined ? "Another operation" : `Operation ${operationId}`;
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

export function toOperation(row: OperationRow): Operation {
  return {
    id: row.id as OperationId,
    organizationId: row.organizationId as OrganizationId,
    clusterId: row.clusterId as ClusterId,
    kind: row.kind as OperationKind,
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
  };
}
