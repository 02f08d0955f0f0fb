/**
 * The audit log of one request. A change in the database and its line in the log are one transaction: `core`
 * has a database whose `transaction` writes the line before it commits, so that neither is there without the
 * other. What changes a broker instead has a line before and one after.
 */
import type { RateLimitRepository, TenantDatabase, Transaction } from "@millrace/db";
import {
  type AuditEvent,
  type AuditResult,
  auditDetail,
  auditText,
  type Changer,
  type ErrorCode,
  type Principal,
  principalKey,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { changerBehind } from "../tenant/changer-behind.ts";
import { snapshot } from "./audit-snapshot.ts";

/** Changes that a broker makes: no transaction of ours holds them. */
const AT_BROKER: ReadonlySet<string> = new Set([
  "topic.create",
  "topic.update",
  "topic.delete",
  "record.produce",
]);
/** The field of the request that names what is changed. */
const TARGET_FIELDS: Readonly<Record<string, string>> = {
  apiKey: "api_key_id",
  environment: "environment_id",
  operation: "operation_id",
};
/**
 * Refusals change nothing, and whoever is refused can ask again a thousand times a second: of the same one
 * only the first of a minute is kept, and of all of an organization so many per hour.
 */
const REFUSAL_WINDOW_MS = 60_000;
const REFUSALS_PER_HOUR_MAX = 1_000;
const HOUR_MS = 3_600_000;
/** Ids are shorter; what is sent in their place may have any length. */
const ID_LENGTH_MAX = 100;
const ADDRESS_LENGTH_MAX = 64;

export interface AuditedRequest {
  /** The contract's name. */
  readonly method: string;
  readonly input: unknown;
  readonly requestId: string;
  readonly clientAddress: string;
}

type Line = Pick<AuditEvent, "result"> &
  Partial<Pick<AuditEvent, "targetId" | "before" | "after" | "errorCode">>;

export class AuditTrail {
  /** For the use case of this request. */
  readonly core: Core;
  readonly #db: TenantDatabase;
  readonly #rateLimits: RateLimitRepository;
  readonly #plain: Core;
  readonly #principal: Principal;
  readonly #request: AuditedRequest;
  readonly #target: string | undefined;
  #actor: Promise<Changer> | undefined;
  #isWritten = false;

  constructor(
    core: Core,
    rateLimits: RateLimitRepository,
    principal: Principal,
    request: AuditedRequest,
  ) {
    this.#plain = core;
    this.#db = core.db;
    this.#rateLimits = rateLimits;
    this.#principal = principal;
    this.#request = request;
    this.#target = targetOf(request);
    const transaction: TenantDatabase["transaction"] = (work) => this.#transaction(work);
    this.core = { ...core, db: { ...core.db, transaction } };
  }

  /** Before the use case runs. */
  async begin(): Promise<void> {
    if (!AT_BROKER.has(this.#request.method) || this.#isPreview()) return;
    await this.#append(this.#db, { result: "started" });
  }

  /** After it, unless a transaction has said so already. */
  async succeeded(): Promise<void> {
    if (this.#isWritten || this.#isPreview()) return;
    await this.#append(this.#db, { result: "success" });
  }

  /** Of a mutation that failed, and of anything that the role does not grant. */
  async refused(errorCode: ErrorCode): Promise<void> {
    if (this.#isWritten || this.#isPreview()) return;
    const result: AuditResult = errorCode === "forbidden" ? "denied" : "failure";
    const begun = AT_BROKER.has(this.#request.method) && result === "failure";
    // What was begun has its outcome, be there ever so many.
    if (!begun && !(await this.#isKept(errorCode))) return;
    await this.#append(this.#db, { result, errorCode });
  }

  async #isKept(errorCode: ErrorCode): Promise<boolean> {
    const { organizationId } = this.#principal;
    const same = [principalKey(this.#principal), this.#request.method, errorCode].join("|");
    const now = Date.now();
    const key = `audit|${organizationId}|${same}`;
    if ((await this.#rateLimits.count(key, REFUSAL_WINDOW_MS, now)) > 1) return false;
    const all = await this.#rateLimits.count(`audit|${organizationId}`, HOUR_MS, now);
    return all <= REFUSALS_PER_HOUR_MAX;
  }

  async #transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    const actor = await this.#who();
    const { organizationId } = this.#principal;
    const result = await this.#db.transaction(async (tx) => {
      if (this.#isWritten) return work({ ...tx, actor });
      const before = this.#target && (await snapshot(tx, organizationId, this.#target));
      const changed = await work({ ...tx, actor });
      const targetId = this.#target ?? idOf(changed);
      const after = targetId && (await snapshot(tx, organizationId, targetId));
      const line = { ...(before && { before }), ...(after && { after }) };
      await this.#append(tx, { result: "success", ...line, ...(targetId && { targetId }) });
      return changed;
    });
    this.#isWritten = true;
    return result;
  }

  async #append(db: Pick<TenantDatabase, "audit">, line: Line): Promise<void> {
    const { method, input, requestId, clientAddress } = this.#request;
    await db.audit.append({
      organizationId: this.#principal.organizationId,
      actor: await this.#who(),
      authMethod: this.#principal.apiKeyId === undefined ? "session" : "api_key",
      ...{ method, requestId, clientAddress: auditText(clientAddress, ADDRESS_LENGTH_MAX) },
      request: auditDetail(input),
      targetId: this.#target,
      before: undefined,
      after: undefined,
      errorCode: undefined,
      ...line,
    });
  }

  #who(): Promise<Changer> {
    this.#actor ??= changerBehind(this.#plain, this.#principal);
    return this.#actor;
  }

  /** A preview changes nothing. */
  #isPreview(): boolean {
    const { validate_only: asked } = fieldsOf(this.#request.input);
    return asked === true || asked === "true";
  }
}

function targetOf({ method, input }: AuditedRequest): string | undefined {
  const [noun = "", verb] = method.split(".");
  const field = TARGET_FIELDS[noun] ?? "cluster_id";
  const id = verb === "create" && noun !== "topic" ? undefined : fieldsOf(input)[field];
  return typeof id === "string" ? auditText(id, ID_LENGTH_MAX) : undefined;
}

/** The id of what a transaction made: of its result, or of the first part of it that has one. */
function idOf(made: unknown): string | undefined {
  const { id, cluster } = fieldsOf(made);
  if (typeof id === "string") return id;
  const { id: clusterId } = fieldsOf(cluster);
  return typeof clusterId === "string" ? clusterId : undefined;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
