import {
  type AuditDetail,
  type AuditEvent,
  type AuditEventId,
  type AuditResult,
  type AuthMethod,
  newId,
  type OrganizationId,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { AuditEvent as EventRow, Prisma } from "./generated/client.ts";
import { type Page, type PageRequest, pageOf } from "./page.ts";

/** What the caller says; number, time and hash are the database's. */
export type NewAuditEvent = Omit<AuditEvent, "id" | "seq" | "createdAt" | "hash">;

export interface AuditFilter {
  readonly actorId?: string | undefined;
  /** A method, or the part before its dot. */
  readonly method?: string | undefined;
  readonly targetId?: string | undefined;
  readonly result?: AuditResult | undefined;
  readonly from?: Date | undefined;
  readonly to?: Date | undefined;
}

/** The end of a chain; an empty one begins with 0 and no hash. */
export interface ChainHead {
  readonly seq: bigint;
  readonly hash: Uint8Array;
}

export interface ChainChecks {
  /** The head that the newest verification without a break found. */
  readonly intact: ChainHead | undefined;
  /** When the newest verification from the first event was. */
  readonly fullAt: Date | undefined;
  /** Whether the newest verification found a break. */
  readonly isBroken: boolean;
}

export interface NewChainCheck extends ChainHead {
  readonly checkedAt: Date;
  /** The event after which it began. */
  readonly fromSeq: bigint;
  readonly brokenSeq: bigint | undefined;
}

interface CheckedRow {
  readonly seq: bigint;
  readonly hash: Uint8Array;
  readonly intact: boolean;
}

/** The audit log of one tenant: appended to, read and verified, never changed. */
export class AuditRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async append(event: NewAuditEvent): Promise<void> {
    await this.#client.$executeRaw`
      INSERT INTO audit_event (id, organization_id, actor_kind, actor_id, actor_name, auth_method,
        client_address, request_id, method, target_id, result, error_code, request, before, after,
        impersonator)
      VALUES (${newId("aud")}, ${event.organizationId}, ${event.actor.kind}, ${event.actor.id},
        ${event.actor.name}, ${event.authMethod}, ${event.clientAddress}, ${event.requestId},
        ${event.method}, ${event.targetId ?? null}, ${event.result}, ${event.errorCode ?? null},
        ${jsonOf(event.request)}::jsonb, ${jsonOf(event.before)}::jsonb, ${jsonOf(event.after)}::jsonb,
        ${jsonOf(event.impersonator)}::jsonb)`;
  }

  /** Newest first. Pages are cut at `seq`: events of the same millisecond have an order, too. */
  async list(
    organizationId: OrganizationId,
    page: PageRequest,
    filter: AuditFilter = {},
  ): Promise<Page<AuditEvent>> {
    const rows = await this.#client.auditEvent.findMany({
      where: {
        organizationId,
        AND: [whereOf(filter), page.after ? { seq: { lt: BigInt(page.after.id) } } : {}],
      },
      orderBy: { seq: "desc" },
      take: page.limit + 1,
    });
    const positioned = rows.map((row) => ({ row, createdAt: row.createdAt, id: `${row.seq}` }));
    return pageOf(positioned, page.limit, ({ row }) => toEvent(row));
  }

  /**
   * Checks at most `limit` events after `head`: that they are numbered without a gap, that each names the
   * hash before it, and that each has the hash of what it says. The new head, the same where none followed,
   * and the number of the first event that is not so.
   */
  async verify(
    organizationId: OrganizationId,
    head: ChainHead,
    limit: number,
  ): Promise<{ head: ChainHead; brokenSeq: bigint | undefined }> {
    const rows = await this.#client.$queryRaw<CheckedRow[]>`
      SELECT seq, hash,
        seq = coalesce(lag(seq) OVER chain, ${head.seq}::bigint) + 1
          AND previous_hash = coalesce(lag(hash) OVER chain, ${head.hash})
          AND hash = audit_event_hash(previous_hash, e) AS intact
      FROM (SELECT * FROM audit_event WHERE organization_id = ${organizationId}
        AND seq > ${head.seq}::bigint ORDER BY seq LIMIT ${limit}) AS part
      JOIN audit_event e USING (organization_id, seq, hash, previous_hash)
      WINDOW chain AS (ORDER BY seq) ORDER BY seq`;
    const broken = rows.find(({ intact }) => !intact);
    const last = rows.at(-1);
    return { head: last ?? head, brokenSeq: broken?.seq };
  }

  /** Whether the event is there with that hash. */
  async has(organizationId: OrganizationId, { seq, hash }: ChainHead): Promise<boolean> {
    if (seq === 0n) return true;
    const where = { organizationId, seq, hash: new Uint8Array(hash) };
    return (await this.#client.auditEvent.count({ where })) === 1;
  }

  /** What the verifications until now found. */
  async checks(organizationId: OrganizationId): Promise<ChainChecks> {
    const newest = (where: Prisma.AuditCheckWhereInput) =>
      this.#client.auditCheck.findFirst({
        where: { organizationId, ...where },
        orderBy: { checkedAt: "desc" },
      });
    const last = await newest({});
    const intact = last?.brokenSeq === null ? last : await newest({ brokenSeq: null });
    const full = await newest({ fromSeq: 0n });
    return {
      intact: intact ?? undefined,
      fullAt: full?.checkedAt,
      isBroken: last !== null && last.brokenSeq !== null,
    };
  }

  async recordCheck(organizationId: OrganizationId, check: NewChainCheck): Promise<void> {
    const { seq, hash, fromSeq, checkedAt, brokenSeq } = check;
    await this.#client.auditCheck.create({
      data: {
        ...{ organizationId, seq, fromSeq, checkedAt },
        ...{ hash: new Uint8Array(hash), brokenSeq: brokenSeq ?? null },
      },
    });
  }

  /**
   * Tenants whose chain was not verified since `before`: those that were never verified first, then by the
   * time of the last verification. Leaves out the first `skipped`.
   */
  async checkDue(before: Date, limit: number, skipped = 0): Promise<OrganizationId[]> {
    const rows = await this.#client.$queryRaw<{ id: OrganizationId }[]>`
      SELECT o.id FROM organization o LEFT JOIN audit_check c ON c.organization_id = o.id
      GROUP BY o.id HAVING coalesce(max(c.checked_at) < ${before}, true)
      ORDER BY max(c.checked_at) NULLS FIRST, o.id LIMIT ${limit} OFFSET ${skipped}`;
    return rows.map(({ id }) => id);
  }
}

function jsonOf(detail: AuditDetail | undefined): string | null {
  return detail === undefined ? null : JSON.stringify(detail);
}

function whereOf(filter: AuditFilter): Prisma.AuditEventWhereInput {
  const { actorId, method, targetId, result, from, to } = filter;
  return {
    ...(actorId !== undefined && { actorId }),
    ...(targetId !== undefined && { targetId }),
    ...(result !== undefined && { result }),
    ...(method !== undefined &&
      (method.includes(".") ? { method } : { method: { startsWith: `${method}.` } })),
    createdAt: { ...(from && { gte: from }), ...(to && { lt: to }) },
  };
}

function toEvent(row: EventRow): AuditEvent {
  return {
    id: row.id as AuditEventId,
    organizationId: row.organizationId as OrganizationId,
    seq: row.seq,
    createdAt: row.createdAt,
    actor: {
      kind: row.actorKind === "api_key" ? "api_key" : "user",
      id: row.actorId,
      name: row.actorName,
    },
    impersonator: (row.impersonator as AuditEvent["impersonator"] | null) ?? undefined,
    authMethod: row.authMethod as AuthMethod,
    clientAddress: row.clientAddress,
    requestId: row.requestId,
    method: row.method,
    targetId: row.targetId ?? undefined,
    result: row.result as AuditResult,
    errorCode: row.errorCode ?? undefined,
    request: (row.request as AuditDetail | null) ?? undefined,
    before: (row.before as AuditDetail | null) ?? undefined,
    after: (row.after as AuditDetail | null) ?? undefined,
    hash: row.hash,
  };
}
