import { assertRecentProof, authorize } from "@millrace/auth";
import { contracts } from "@millrace/contract";
import { AuditTrail, type Core, coreOf } from "@millrace/core";
import type { DomainError, Permission, Principal } from "@millrace/domain";
import { initTRPC, TRPCError } from "@trpc/server";
import superjson from "superjson";
import { type ZodObject, type ZodRawShape, z } from "zod";
import { AccessWatch } from "./access-watch.ts";
import type { RequestContext } from "./context.ts";
import { toDomainError, toProblem } from "./problem.ts";

/** Proxies cut connections that are silent for long. */
const SSE_PING_INTERVAL_MS = 2_000;
const SSE_RECONNECT_MS = 8_000;

/** tRPC's names for the statuses of our errors; it derives the HTTP status from them. */
const TRPC_CODE_BY_STATUS: Readonly<Record<number, TRPCError["code"]>> = {
  400: "BAD_REQUEST",
  401: "UNAUTHORIZED",
  403: "FORBIDDEN",
  404: "NOT_FOUND",
  409: "CONFLICT",
  412: "PRECONDITION_FAILED",
  413: "PAYLOAD_TOO_LARGE",
  422: "UNPROCESSABLE_CONTENT",
  429: "TOO_MANY_REQUESTS",
  502: "BAD_GATEWAY",
  503: "SERVICE_UNAVAILABLE",
  504: "GATEWAY_TIMEOUT",
};

const CONTRACTS = new Map(contracts.map((contract) => [contract.name, contract]));

const t = initTRPC.context<RequestContext>().create({
  transformer: superjson,
  isDev: false,
  sse: {
    ping: { enabled: true, intervalMs: SSE_PING_INTERVAL_MS },
    client: { reconnectAfterInactivityMs: SSE_RECONNECT_MS },
  },
  errorFormatter({ shape, error, ctx }) {
    const context = { requestId: ctx?.requestId ?? "", instance: ctx?.instance ?? "" };
    const problem = toProblem(error, context);
    const message = problem.remedy ? `${problem.detail} ${problem.remedy}` : problem.detail;
    return { ...shape, message, data: { ...shape.data, problem } };
  },
});

export const router = t.router;
export const createCallerFactory = t.createCallerFactory;

/** The context of a procedure: who calls is known. */
export interface PrincipalContext extends Omit<RequestContext, "core"> {
  readonly core: Core;
  readonly principal: Principal;
}

/**
 * Procedures begin here: the caller is known, and its role grants `permission`. Queries and
 * subscriptions that last end when that changes; a mutation that has begun is completed.
 */
export function procedure(permission: Permission) {
  return t.procedure.use(async ({ ctx, type, path, getRawInput, next }) => {
    let access: AccessWatch | undefined;
    let trail: AuditTrail | undefined;
    try {
      const principal = await ctx.authenticate();
      const plain = coreOf(ctx.core, principal.organizationId);
      const contract = CONTRACTS.get(path);
      const { requestId, clientAddress, report } = ctx;
      const hasPreview = contract !== undefined && "validate_only" in contract.input.shape;
      const sent = { method: path, input: getRawInput, hasPreview };
      const request = { ...sent, requestId, clientAddress, report };
      trail = new AuditTrail(plain, ctx.core.db.rateLimits, principal, request);
      authorize(principal, permission);
      if (contract?.stepUp) assertRecentProof(principal, ctx.core.clock.now());
      // Before the body is read.
      if (contract?.bodyBytesMax !== undefined) await ctx.takeBodySlot(permission);
      const isMutation = type === "mutation";
      if (!isMutation) access = new AccessWatch(ctx, principal, permission);
      const signal = access ? AbortSignal.any([ctx.signal, access.signal]) : ctx.signal;
      const core = isMutation ? trail.core : plain;
      const result = await next({ ctx: { ...ctx, core, principal, signal } });
      access?.assert();
      if (!result.ok) throw withStatus(result.error);
      if (isMutation) await trail.succeeded();
      if (type !== "subscription" || access === undefined) return result;
      const items = (result.data as AsyncIterable<unknown>)[Symbol.asyncIterator]();
      const data = access.guard(items, withStatus);
      access = undefined;
      return { ...result, data };
    } catch (error) {
      const { code } = toDomainError(error);
      // Reading fails without a trace, unless it is not allowed.
      if (type === "mutation" || code === "forbidden") await trail?.refused(code);
      throw withStatus(error);
    } finally {
      access?.stop();
    }
  });
}

/** Gives an error the tRPC code that stands for its status; tRPC's own errors keep theirs. */
function withStatus(error: unknown): TRPCError {
  if (error instanceof TRPCError && !(error.code === "INTERNAL_SERVER_ERROR")) return error;
  const known: DomainError = toDomainError(error);
  const code = TRPC_CODE_BY_STATUS[known.status] ?? "INTERNAL_SERVER_ERROR";
  return new TRPCError({ code, message: known.message, cause: known });
}

/**
 * The input of a list for tRPC clients that page by themselves: they send the page token as
 * `cursor`. REST callers do not get here with it.
 */
export function infinite<S extends ZodRawShape>(input: ZodObject<S, z.core.$strict>) {
  return z.strictObject({
    ...input.shape,
    cursor: z.string().max(1000).nullish(),
    direction: z.enum(["forward", "backward"]).optional(),
  });
}

/** Page fields of an input in the core's terms. */
export function pageInput(input: {
  page_size?: number | undefined;
  page_token?: string | undefined;
  cursor?: string | null | undefined;
}) {
  return { pageSize: input.page_size, pageToken: input.page_token ?? input.cursor ?? undefined };
}

/** A page of the core as the contract shapes it. */
export function presentPage<T, R>(
  page: { readonly items: readonly T[]; readonly nextPageToken: string | undefined },
  present: (item: T) => R,
): { items: R[]; next_page_token?: string } {
  return {
    items: page.items.map(present),
    ...(page.nextPageToken !== undefined && { next_page_token: page.nextPageToken }),
  };
}
