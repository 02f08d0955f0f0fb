/**
 * What platform operators ask across organizations: a few functions with the owner's rights, each of which checks the
 * session itself. The API's role sees no row by them that the session may not see.
 */
import {
  type Impersonation,
  type ImpersonationId,
  newId,
  type OrganizationId,
  type SessionId,
  type UserId,
} from "@millrace/domain";
import type { Client } from "./client.ts";

/** Clusters of one organization that are listed. */
const CLUSTERS_LISTED_MAX = 100;

/** A cluster as platform operators see it without an impersonation. */
export interface PlatformCluster {
  readonly id: string;
  readonly name: string;
  readonly region: string;
  readonly size: string;
  readonly phase: string;
  /** `True`, `False` or `Unknown`; null before the first observation. */
  readonly ready: string | null;
  readonly reason: string | null;
}

export interface PlatformOrganization {
  readonly id: OrganizationId;
  readonly name: string;
  readonly slug: string;
  readonly createdAt: Date;
  readonly members: number;
  readonly clusters: readonly PlatformCluster[];
}

export interface NewImpersonation {
  readonly sessionId: SessionId;
  readonly organizationId: OrganizationId;
  /** In lower case; the first owner where absent. */
  readonly memberEmail: string | undefined;
  readonly reason: string;
  readonly mayWrite: boolean;
}

/** A session's active impersonation. */
export interface ActiveImpersonation extends Impersonation {
  readonly organizationId: OrganizationId;
  readonly userId: UserId;
}

interface OperatorFields {
  readonly operatorId: UserId;
  readonly operatorEmail: string;
}

export class PlatformRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Whether the session is a platform operator's who belongs to no organization. */
  async isOperator(sessionId: SessionId): Promise<boolean> {
    const [row] = await this.#client.$queryRaw<{ id: string | null }[]>`
      SELECT platform_operator_of(${sessionId}) AS id`;
    return typeof row?.id === "string";
  }

  /** By id, those after `after`; none for a session that is no platform operator's. */
  async organizations(
    sessionId: SessionId,
    after: string,
    limit: number,
  ): Promise<PlatformOrganization[]> {
    type Row = Omit<PlatformOrganization, "members"> & { readonly members: bigint };
    const rows = await this.#client.$queryRaw<Row[]>`
      SELECT id, name, slug, created_at AS "createdAt", members, clusters
      FROM platform_organizations(${sessionId}, ${after}, ${limit}::integer, ${CLUSTERS_LISTED_MAX}::integer)`;
    return rows.map((row) => ({ ...row, members: Number(row.members) }));
  }

  /** Undefined where the session is no platform operator's, has an active impersonation, or there is no such member. */
  async begin(
    input: NewImpersonation,
  ): Promise<(ActiveImpersonation & { readonly userEmail: string }) | undefined> {
    const { sessionId, organizationId, memberEmail, reason, mayWrite } = input;
    const id = newId("imp");
    type Row = OperatorFields & {
      readonly userId: UserId;
      readonly userEmail: string;
      readonly expiresAt: Date;
    };
    const [row] = await this.#client.$queryRaw<Row[]>`
      SELECT user_id AS "userId", user_email AS "userEmail", operator_id AS "operatorId",
        operator_email AS "operatorEmail", expires_at AS "expiresAt"
      FROM begin_impersonation(${sessionId}, ${id}, ${organizationId}, ${memberEmail ?? null},
        ${reason}, ${mayWrite})`;
    if (!row) return undefined;
    const { operatorId, operatorEmail, ...rest } = row;
    const operator = { id: operatorId, email: operatorEmail };
    return { id, organizationId, reason, mayWrite, operator, ...rest };
  }

  /** The session's active impersonation. */
  async active(sessionId: SessionId): Promise<ActiveImpersonation | undefined> {
    type Row = OperatorFields & Omit<ActiveImpersonation, "operator">;
    const [row] = await this.#client.$queryRaw<Row[]>`
      SELECT id, organization_id AS "organizationId", user_id AS "userId", operator_id AS "operatorId",
        operator_email AS "operatorEmail", reason, may_write AS "mayWrite", expires_at AS "expiresAt"
      FROM active_impersonation(${sessionId})`;
    if (!row) return undefined;
    const { operatorId, operatorEmail, ...rest } = row;
    return { ...rest, operator: { id: operatorId, email: operatorEmail } };
  }

  /** False where it was over. */
  async end(sessionId: SessionId, id: ImpersonationId): Promise<boolean> {
    const [row] = await this.#client.$queryRaw<{ ended: boolean }[]>`
      SELECT end_impersonation(${sessionId}, ${id}) AS ended`;
    return row?.ended === true;
  }
}
