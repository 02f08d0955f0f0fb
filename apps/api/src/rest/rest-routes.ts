import { createHash } from "node:crypto";
import { authorize } from "@millrace/auth";
import {
  type Contract,
  contracts,
  exportAuditEvents,
  type OperationEvent,
  type RecordStreamItem,
  type StreamType,
  streamRecords,
  watchOperation,
} from "@millrace/contract";
import { createCaller, type RequestContext } from "@millrace/router";
import { type Context, Hono } from "hono";
import type { Logger } from "pino";
import { bodyText } from "../body-text.ts";
import { problemResponse } from "../problem-response.ts";
import type { ApiEnv } from "../request-context.ts";
import { AuditSigner } from "./audit-signature.ts";
import { eventStream } from "./event-stream.ts";
import { bodyHashOf, idempotent } from "./idempotency.ts";
import { pulledStream } from "./pulled-stream.ts";
import { readInput, strongTag } from "./read-input.ts";
import { recordStream } from "./record-stream.ts";

/** Calls the procedure of a contract with what came over HTTP. */
type Call = (input: unknown) => Promise<unknown>;

const DIGEST_LENGTH = 16;

/** Public, like every key that others verify signatures with. */
const AUDIT_KEY_PATH = "/.well-known/millrace-audit-key.pem";

export interface RestParts {
  readonly log: Logger;
  /** Hashes bodies of idempotent requests and signs exports of the audit log; at least 32 characters. */
  readonly secret: string;
}

/** The REST API: one route per contract, answered by the same procedure that tRPC calls. */
export function restRoutes(parts: RestParts): Hono<ApiEnv> {
  const app = new Hono<ApiEnv>();
  const signer = new AuditSigner(parts.secret);
  app.get(AUDIT_KEY_PATH, (c) =>
    c.body(signer.publicKey, 200, { "Content-Type": "application/x-pem-file" }),
  );
  for (const contract of contracts) {
    app.on(contract.method, honoPath(contract.path), async (c) => {
      try {
        return await answer(contract, c, { ...parts, signer });
      } catch (error) {
        return problemResponse(c, parts.log, error);
      }
    });
  }
  return app;
}

async function answer(
  contract: Contract,
  c: Context<ApiEnv>,
  { log, secret, signer }: RestParts & { readonly signer: AuditSigner },
): Promise<Response> {
  const context = c.get("context");
  // Unauthenticated callers learn nothing, not even what is wrong with their request.
  await context.authenticate();
  const call = callOf(contract, context);
  if (contract.bodyBytesMax !== undefined && (await isRefusedSlot(contract, context))) {
    // The procedure refuses the caller for the same reason, and writes that down.
    return present(contract, c, await call(c.req.param()));
  }
  const body = contract.method === "GET" ? "" : await bodyText(c);
  const input = await readInput(contract, c.req, body);
  if (contract.stream) return stream(contract, c, input, signer);
  const run = async () => present(contract, c, await call(input));
  const key = contract.method === "POST" ? c.req.header("idempotency-key") : undefined;
  // A preview does nothing, so it may run as often as it likes and leaves the key to the change.
  if (key === undefined || input.validate_only === "true") return run();
  // A caller that may not make the change gets no row; the procedure refuses it and writes that down.
  if (!(await isAllowed(contract, context))) return run();
  const sent = { query: new URL(c.req.url).search, bodyHash: bodyHashOf(body, secret) };
  return idempotent(contract, context, key, sent, run, (error) => problemResponse(c, log, error));
}

async function isAllowed({ permission }: Contract, context: RequestContext): Promise<boolean> {
  const principal = await context.authenticate();
  try {
    authorize(principal, permission);
    return true;
  } catch {
    return false;
  }
}

function isRefusedSlot({ permission }: Contract, context: RequestContext): Promise<boolean> {
  return context.takeBodySlot(permission).then(
    () => false,
    () => true,
  );
}

function callOf(contract: Contract, context: RequestContext): Call {
  const [noun = "", verb = ""] = contract.name.split(".");
  const caller = createCaller(context) as unknown as Record<string, Record<string, Call>>;
  const call = caller[noun]?.[verb];
  if (!call) throw new Error(`there is no procedure ${contract.name}`);
  return call;
}

/** What the caller accepts, else the contract's first. */
function streamType(c: Context<ApiEnv>, types: readonly StreamType[]): StreamType {
  const accepted = c.req.header("accept") ?? "";
  return types.find((type) => accepted.includes(type)) ?? types[0] ?? "text/event-stream";
}

/** Lines of an export's events and, unless the export was cut off, its signature. */
type Sign = (events: AsyncIterable<object>, isCut: () => boolean) => AsyncIterable<string>;

interface StreamKind {
  /** Fails as a request does, where the stream itself would only break. */
  readonly check?: (context: RequestContext, input: Record<string, unknown>) => Promise<unknown>;
  readonly write: (
    c: Context<ApiEnv>,
    items: unknown,
    type: StreamType,
    gone: AbortController,
    /** Where the caller asks for a signature. */
    sign: Sign | undefined,
  ) => Response;
}

/** By the name of their contract. */
const STREAMS: Readonly<Record<string, StreamKind>> = {
  [watchOperation.name]: {
    // Events begin with the first one read: a foreign id must be 404 and not a broken stream.
    check: (context, { operation_id }) =>
      createCaller(context).operation.get({ operation_id: String(operation_id) }),
    write: (c, items, _type, gone) =>
      eventStream(c, items as AsyncIterable<[string, OperationEvent]>, gone),
  },
  [exportAuditEvents.name]: {
    write: (c, items, type, gone, sign) => {
      c.header("Content-Disposition", 'attachment; filename="audit-events.ndjson"');
      const events = items as AsyncIterable<object>;
      const lines = sign?.(events, () => gone.signal.aborted) ?? events;
      return pulledStream<object | string>(c, lines, type, gone, (item) =>
        typeof item === "string" ? item : `${JSON.stringify(item)}\n`,
      );
    },
  },
  [streamRecords.name]: {
    write: (c, items, type, gone) =>
      recordStream(c, items as AsyncIterable<[string, RecordStreamItem]>, type, gone),
  },
};

async function stream(
  contract: Contract,
  c: Context<ApiEnv>,
  input: Record<string, unknown>,
  signer: AuditSigner,
): Promise<Response> {
  const type = streamType(c, contract.stream ?? []);
  const gone = new AbortController();
  const context = c.get("context");
  context.signal.addEventListener("abort", () => gone.abort(), { once: true });
  const kind = STREAMS[contract.name];
  if (!kind) throw new Error(`nothing writes the stream ${contract.name}`);
  await kind.check?.(context, input);
  const sign = input.signed === "true" ? await signing(context, input, signer) : undefined;
  const items = await callOf(contract, { ...context, signal: gone.signal })(input);
  if (c.req.method === "HEAD") {
    // Nobody reads the body of an answer to HEAD, nor would anybody end the stream.
    gone.abort();
    return c.body(null, 200, { "Content-Type": type });
  }
  return kind.write(c, items, type, gone, sign);
}

async function signing(
  context: RequestContext,
  { signed: _, ...query }: Record<string, unknown>,
  signer: AuditSigner,
): Promise<Sign> {
  const { organizationId } = await context.authenticate();
  const exported_at = context.core.clock.now().toISOString();
  const exported = { organization_id: organizationId, query, exported_at };
  return (events, isCut) => signer.lines(events, exported, isCut);
}

interface Presented {
  readonly metadata?: { readonly etag?: string };
  readonly operation_id?: string;
  readonly id?: string;
}

function present(contract: Contract, c: Context<ApiEnv>, value: unknown): Response {
  c.header("Cache-Control", "no-store");
  if (contract.successStatus === 204) return c.body(null, 204);
  if (contract.text !== undefined) {
    return c.body(value as string, 200, { "Content-Type": contract.text });
  }
  const answer = value as Presented;
  const status = statusOf(contract, answer);
  if (status === 202) {
    c.header("Location", `/v1/operations/${answer.operation_id ?? answer.id}`);
  }
  const version = answer.metadata?.etag;
  if (version) {
    const etag = contract.method === "GET" ? representationTag(version, answer) : version;
    c.header("ETag", etag);
    if (contract.method === "GET" && strongTag(c.req.header("if-none-match")) === etag) {
      return c.body(null, 304);
    }
  }
  return c.json(answer, status);
}

/**
 * What a reader sees may change without a write to the resource, as the connections of brokers do: the tag of a
 * representation tells that too. Who takes If-Match looks at the version only.
 */
function representationTag(version: string, answer: Presented): string {
  if (!/^"\d+"$/.test(version)) return version;
  const digest = createHash("sha256").update(JSON.stringify(answer)).digest("hex");
  return `${version.slice(0, -1)}-${digest.slice(0, DIGEST_LENGTH)}"`;
}

/**
 * Where a contract has several answers, 202 is the one with an operation to follow: the operation
 * itself, or what names it.
 */
function statusOf(contract: Contract, answer: Presented): 200 | 201 | 202 {
  if (contract.successStatus === 204) throw new Error("204 has no body");
  if (contract.answers === undefined) return contract.successStatus;
  return answer.operation_id !== undefined || answer.id !== undefined ? 202 : 200;
}

/** `/v1/clusters/{cluster_id}` as Hono writes it. */
function honoPath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}
