/**
 * The audit log of one request. A change in the database and its line in the log are one transaction: `core`
 * has a database whose `transaction` writes the line before it commits, so that neither is there without the
 * other. A change that a broker makes, such as of a topic, has a line before and one after; of records produced there
 * is one line per minute.
 */
import { createHash } from "node:crypto";
import type { RateLimitRepository, TenantDatabase, Transaction } from "@millrace/db";
import {
  type AuditEvent,
  type AuditResult,
  type AuthMethod,
  auditDetail,
  auditText,
  type Changer,
  DomainError,
  type ErrorCode,
  type Principal,
  principalKey,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { changerBehind } from "../tenant/changer-behind.ts";
import { snapshot } from "./audit-snapshot.ts";

const PRODUCE = "record.produce";
/** Changes that a broker makes: no transaction of ours holds them. */
const AT_BROKER: ReadonlySet<string> = new Set([
  "topic.create",
  "topic.update",
  "topic.delete",
  "user.create",
  "user.update",
  "user.rotate",
  "user.delete",
  "acl.create",
  "acl.applyTemplate",
  "acl.delete",
  "quota.set",
  "quota.delete",
  PRODUCE,
]);
/** The field of the request that names what is changed. */
const TARGET_FIELDS: Readonly<Record<string, string>> = {
  apiKey: "api_key_id",
  role: "role_id",
  serviceAccount: "service_account_id",
  environment: "environment_id",
  invitation: "invitation_id",
  member: "member_id",
  outgoingMail: "mail_id",
  session: "session_id",
  operation: "operation_id",
};
/**
 * Refusals change nothing, and whoever is refused can ask again a thousand times a second: of the same one
 * only the first of a minute is kept, and of all of a caller and of an organization so many per hour.
 */
const REFUSAL_WINDOW_MS = 60_000;
const REFUSALS_PER_HOUR_MAX = 1_000;
/** Fewer than all: one caller must not hide what others are refused. */
const REFUSALS_OF_CALLER_PER_HOUR_MAX = 200;
/**
 * A change that a broker refuses has two lines. A caller that fails so often has its next changes refused
 * before the broker is asked, until the hour is over.
 */
const FAILURES_OF_CALLER_PER_HOUR_MAX = 100;
const HOUR_MS = 3_600_000;
/** Refusals of one method count per target, in so many groups of targets: what callers name is without end. */
const TARGET_GROUPS = 256;
/** Of what one caller produces to one topic, the first request of so long is kept. */
const PRODUCE_WINDOW_MS = 60_000;
/** Ids are shorter; what is sent in their place may have any length. */
const ID_LENGTH_MAX = 100;
const ADDRESS_LENGTH_MAX = 64;

export interface AuditedRequest {
  /** The contract's name. */
  readonly method: string;
  /** What was sent, read no earlier than it is needed; never more than the server lets in. */
  readonly input: () => Promise<unknown>;
  /** Whether `validate_only` asks the method for a preview. */
  readonly hasPreview: boolean;
  readonly requestId: string;
  readonly clientAddress: string;
  /** Logs what the caller must not learn: a line that could not be written. */
  readonly report: (error: unknown, message: string) => void;
}

type Line = Pick<AuditEvent, "result"> &
  Partial<Pick<AuditEvent, "targetId" | "before" | "after" | "errorCode">>;

export class AuditTrail {
  readonly #db: TenantDatabase;
  readonly #rateLimits: RateLimitRepository;
  readonly #plain: Core;
  readonly #principal: Principal;
  readonly #request: AuditedRequest;
  #input: Promise<unknown> | undefined;
  #actor: Promise<Changer> | undefined;
  #hasBegun = false;
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
  }

  /** For the use case of this request: its transaction also writes the line. */
  get core(): Core {
    const transaction: TenantDatabase["transaction"] = (work) => this.#transaction(work);
    return {
      ...this.#plain,
      db: { ...this.#db, transaction },
      beforeBrokerChange: () => this.#begin(),
    };
  }

  /** After the use case, unless a transaction has said so already. */
  async succeeded(): Promise<void> {
    if (this.#isWritten || (await this.#isPreview())) return;
    // The change is made, whatever becomes of its line.
    this.#isWritten = true;
    try {
      if (await this.#isFirstProduce()) await this.#append(this.#db, { result: "success" });
    } catch (error) {
      if (!AT_BROKER.has(this.#request.method)) throw error;
      this.#request.report(error, "the audit log lacks the outcome of a change at a broker");
    }
  }

  /** Of a mutation that failed, and of anything that the role does not grant. Does not throw. */
  async refused(errorCode: ErrorCode): Promise<void> {
    const result: AuditResult = errorCode === "forbidden" ? "denied" : "failure";
    try {
      if (this.#isWritten || (result === "failure" && (await this.#isPreview()))) return;
      // What was begun has its outcome: failures are counted, and bound what is begun.
      if (this.#hasBegun) await this.#rateLimits.count(this.#failures(), HOUR_MS, Date.now());
      else if (!(await this.#isKept(errorCode))) return;
      await this.#append(this.#db, { result, errorCode });
    } catch (error) {
      this.#request.report(error, "the audit log lacks a refusal");
    }
  }

  async #begin(): Promise<void> {
    if (this.#hasBegun) return;
    await this.#assertFewFailures();
    await this.#append(this.#db, { result: "started" });
    this.#hasBegun = true;
  }

  /** Throws `rate_limited`. */
  async #assertFewFailures(): Promise<void> {
    const failures = await this.#rateLimits.current(this.#failures(), HOUR_MS, Date.now());
    if (failures < FAILURES_OF_CALLER_PER_HOUR_MAX) return;
    throw new DomainError(
      "rate_limited",
      `The cluster's broker rejected ${FAILURES_OF_CALLER_PER_HOUR_MAX} changes of this user or API key within an hour.`,
      { remedy: "Correct the requests, and try again later.", retryAfterSeconds: HOUR_MS / 1_000 },
    );
  }

  #failures(): string {
    return `audit-failures|${principalKey(this.#principal)}`;
  }

  async #isKept(errorCode: ErrorCode): Promise<boolean> {
    const { organizationId } = this.#principal;
    const group = groupOf(await this.#target());
    const same = [principalKey(this.#principal), this.#request.method, errorCode, group].join("|");
    const now = Date.now();
    const key = `audit|${organizationId}|${same}`;
    if ((await this.#rateLimits.count(key, REFUSAL_WINDOW_MS, now)) > 1) return false;
    const caller = `audit|${organizationId}|${principalKey(this.#principal)}`;
    const own = await this.#rateLimits.count(caller, HOUR_MS, now);
    if (own > REFUSALS_OF_CALLER_PER_HOUR_MAX) return false;
    const all = await this.#rateLimits.count(`audit|${organizationId}`, HOUR_MS, now);
    return all <= REFUSALS_PER_HOUR_MAX;
  }

  /** True of every other method. */
  async #isFirstProduce(): Promise<boolean> {
    if (this.#request.method !== PRODUCE) return true;
    const { cluster_id: clusterId, topic_name: topic } = fieldsOf(await this.#sent());
    const key = ["audit", principalKey(this.#principal), PRODUCE, clusterId, topic].join("|");
    return (await this.#rateLimits.count(key, PRODUCE_WINDOW_MS, Date.now())) === 1;
  }

  async #transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    const actor = await this.#who();
    const named = await this.#target();
    const { organizationId } = this.#principal;
    const result = await this.#db.transaction(async (tx) => {
      if (this.#isWritten) return work({ ...tx, actor });
      const target = named ?? (await this.#ofOrganization(tx));
      const before = target && (await snapshot(tx, organizationId, target));
      const changed = await work({ ...tx, actor });
      const targetId = target ?? idOf(changed);
      const after = targetId && (await snapshot(tx, organizationId, targetId));
      const line = { ...(before && { before }), ...(after && { after }) };
      await this.#append(tx, { result: "success", ...line, ...(targetId && { targetId }) });
      return changed;
    });
    this.#isWritten = true;
    return result;
  }

  /** The target of methods whose request names none: an organization has one connection at most. */
  async #ofOrganization(tx: Transaction): Promise<string | undefined> {
    if (!this.#request.method.startsWith("singleSignOn.")) return undefined;
    return (await tx.ssoConnections.find(this.#principal.organizationId))?.connection.id;
  }

  async #append(db: Pick<TenantDatabase, "audit">, line: Line): Promise<void> {
    const { method, requestId, clientAddress } = this.#request;
    const { organizationId, impersonation } = this.#principal;
    const operator = impersonation?.operator;
    await db.audit.append({
      organizationId,
      actor: await this.#who(),
      ...(operator && { impersonator: { id: operator.id, name: operator.email } }),
      authMethod: authMethodOf(this.#principal),
      ...{ method, requestId, clientAddress: auditText(clientAddress, ADDRESS_LENGTH_MAX) },
      request: auditDetail(await this.#sent()),
      targetId: await this.#target(),
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

  /** What cannot be read is not in the log; the use case says why. */
  #sent(): Promise<unknown> {
    this.#input ??= this.#request.input().catch(() => undefined);
    return this.#input;
  }

  async #target(): Promise<string | undefined> {
    return targetOf(this.#request.method, await this.#sent());
  }

  /** A preview changes nothing. */
  async #isPreview(): Promise<boolean> {
    if (!this.#request.hasPreview) return false;
    const { validate_only: asked } = fieldsOf(await this.#sent());
    return asked === true || asked === "true";
  }
}

function authMethodOf({ apiKeyId, impersonation }: Principal): AuthMethod {
  if (impersonation !== undefined) return "impersonation";
  return apiKeyId === undefined ? "session" : "api_key";
}

function targetOf(method: string, input: unknown): string | undefined {
  const [noun = "", verb] = method.split(".");
  const field = TARGET_FIELDS[noun] ?? "cluster_id";
  const isMade = verb === "create" && !AT_BROKER.has(method);
  const id = isMade ? undefined : fieldsOf(input)[field];
  return typeof id === "string" ? auditText(id, ID_LENGTH_MAX) : undefined;
}

function groupOf(target: string | undefined): number {
  if (target === undefined) return 0;
  return createHash("sha256").update(target).digest().readUInt32BE() % TARGET_GROUPS;
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
