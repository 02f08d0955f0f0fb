import { createHmac } from "node:crypto";
import type { Contract } from "@millrace/contract";
import type { IdempotentRequest } from "@millrace/db";
import { DomainError, ERROR_KINDS, principalKey } from "@millrace/domain";
import { type RequestContext, toDomainError } from "@millrace/router";

/** A request that runs longer than this belongs to a process that died. */
const LOCK_MS = 60_000;
const KEEP_MS = 24 * 3_600_000;
const KEY_LENGTH_MAX = 255;
const RETRY_AFTER_SECONDS = 2;
/** Headers that a replay repeats. */
const KEPT_HEADERS = ["content-type", "location", "etag"];
/** Stands in for an answer that holds a secret. */
const NOT_KEPT_BODY = "";

/** What tells one request from another, beside its route. */
export interface SentRequest {
  /** Query string of the URL, as it was sent. */
  readonly query: string;
  readonly bodyHash: Uint8Array<ArrayBuffer>;
}

/**
 * Tells whether two requests have the same body. Bodies may hold passwords that people chose: without the
 * installation's secret, nobody who reads the database can try passwords against it.
 */
export function bodyHashOf(body: string, secret: string): Uint8Array<ArrayBuffer> {
  const hmac = createHmac("sha256", secret).update("idempotent-request\0").update(body);
  return new Uint8Array(hmac.digest());
}

/**
 * Runs `answer` at most once per key: a repetition gets the first answer again. Answers that a
 * retry may better are forgotten; that the outcome is unknown is kept, since a retry could do the
 * work twice. `present` makes the answer to a failure. Throws `idempotency_key_reused` for another request under the
 * same key, `idempotency_key_in_use` while the first one runs.
 */
export async function idempotent(
  contract: Contract,
  context: RequestContext,
  key: string,
  sent: SentRequest,
  answer: () => Promise<Response>,
  present: (error: unknown) => Response,
): Promise<Response> {
  const request = await requestOf(contract, context, key, sent);
  const { idempotency } = context.core.db.tenant(request.organizationId);
  const begun = await idempotency.begin(request);
  if (begun.kind === "mismatch") {
    throw new DomainError("idempotency_key_reused", "This key was used for another request.", {
      remedy: "Use a new key for each new request.",
    });
  }
  if (begun.kind === "running") {
    throw new DomainError("idempotency_key_in_use", "The first request is still running.", {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    });
  }
  if (begun.kind === "replay") {
    const { status, headers, body: stored } = begun.response;
    if (contract.holdsSecret && status < 300) throw notKept();
    return new Response(stored, {
      status,
      headers: { ...headers, "Idempotency-Replayed": "true" },
    });
  }
  let response: Response;
  try {
    response = await answer();
  } catch (error) {
    if (toDomainError(error).code !== "produce_outcome_unknown") {
      await idempotency.abandon(request);
      throw error;
    }
    response = present(error);
    await keep(contract, context, request, response);
    return response;
  }
  if (!isFinal(response.status)) {
    await idempotency.abandon(request);
    return response;
  }
  await keep(contract, context, request, response);
  return response;
}

async function keep(
  contract: Contract,
  { core }: RequestContext,
  request: IdempotentRequest,
  response: Response,
): Promise<void> {
  const headers = Object.fromEntries(
    KEPT_HEADERS.flatMap((name) => {
      const value = response.headers.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
  const body = contract.holdsSecret ? NOT_KEPT_BODY : await response.clone().text();
  await core.db
    .tenant(request.organizationId)
    .idempotency.complete(request, { status: response.status, headers, body });
}

async function requestOf(
  contract: Contract,
  context: RequestContext,
  key: string,
  sent: SentRequest,
): Promise<IdempotentRequest> {
  if (key === "" || key.length > KEY_LENGTH_MAX) {
    throw new DomainError("validation_failed", "The Idempotency-Key is empty or too long.", {
      fields: [
        {
          pointer: "/Idempotency-Key",
          code: "too_big",
          message: `must have 1 to ${KEY_LENGTH_MAX} characters`,
        },
      ],
    });
  }
  const principal = await context.authenticate();
  return {
    organizationId: principal.organizationId,
    // An answer of one impersonation is no answer for the next, whose member may be another.
    principal: principal.impersonation?.id ?? principalKey(principal),
    key,
    // Encoded again: a decoded path may hold U+0000, which PostgreSQL does not store.
    route: `${contract.name} ${encodeURI(context.instance)}${sortedQuery(sent.query)}`,
    requestHash: sent.bodyHash,
    lockMs: LOCK_MS,
    keepMs: KEEP_MS,
  };
}

/** The same fields in another order are the same request. Empty where there are none. */
function sortedQuery(query: string): string {
  const fields = new URLSearchParams(query);
  fields.sort();
  return fields.size === 0 ? "" : `?${fields}`;
}

/** Whether the same request would get the same kind of answer for ever. */
function isFinal(status: number): boolean {
  const retryable = Object.values(ERROR_KINDS).some(
    (kind) => kind.status === status && kind.retryable,
  );
  return !retryable && status < 500;
}

function notKept(): DomainError {
  return new DomainError(
    "idempotent_answer_not_kept",
    "The first request succeeded. Its answer contained a secret, which is returned once.",
    { remedy: "Delete what the first request created, then send the request with a new key." },
  );
}
