import type { Permission } from "@millrace/domain";
import { z } from "zod";

/** Fields of one part of a request, by name. */
export type Shape = Readonly<Record<string, z.ZodType>>;

export type HttpMethod = "GET" | "POST" | "PATCH" | "DELETE";

/** Media types of streams; the first of a contract is the default. */
export type StreamType = "application/x-ndjson" | "text/event-stream";

/**
 * One operation of the API, transport-free: tRPC calls it with one flat input, REST splits the same
 * input over path, query, headers and body. Field names are therefore unique over the four parts.
 */
export interface ContractDefinition<
  P extends Shape,
  Q extends Shape,
  H extends Shape,
  B extends Shape,
  R extends z.ZodType,
> {
  /** `<noun>.<verb>`: path of the tRPC procedure and id of the OpenAPI operation. */
  readonly name: string;
  readonly method: HttpMethod;
  /** REST path with `{param}` segments. */
  readonly path: string;
  /** The title on the reference page, a few words. */
  readonly summary: string;
  /** Whatever does not fit the title. */
  readonly description?: string;
  readonly tag: string;
  /** A body that works, for the reference page; without one it makes one up from the schema. */
  readonly example?: Readonly<Record<string, unknown>>;
  /** What the caller's role must grant. */
  readonly permission: Permission;
  readonly successStatus: 200 | 201 | 202 | 204;
  /**
   * Answers by status, where there are several: `response` is their union. A preview and a change
   * that takes effect at once are 200, a change that takes an operation is 202.
   */
  readonly answers?: Readonly<Partial<Record<200 | 202, z.ZodType>>>;
  /** Set where the answer is a stream of items shaped like `response`: as what it can be sent. */
  readonly stream?: readonly StreamType[];
  /** Set where the answer is a text and not JSON: its media type. */
  readonly text?:
    | "application/x-pem-file"
    | "text/csv; charset=utf-8"
    | "application/openmetrics-text; version=1.0.0; charset=utf-8";
  /** Largest body; the API's general bound where absent. */
  readonly bodyBytesMax?: number;
  /** Set where the answer holds a secret: it is never stored, not even for idempotent replays. */
  readonly holdsSecret?: boolean;
  /** Set where a session must have proved recently who it is. API keys cannot be asked. */
  readonly stepUp?: boolean;
  readonly params: P;
  readonly query: Q;
  /** Request headers; the field `if_match` is the header `If-Match`. */
  readonly headers: H;
  readonly body: B;
  readonly response: R;
}

export interface Contract<
  P extends Shape = Shape,
  Q extends Shape = Shape,
  H extends Shape = Shape,
  B extends Shape = Shape,
  R extends z.ZodType = z.ZodType,
> extends ContractDefinition<P, Q, H, B, R> {
  /** The flat input; an unknown field is an error. */
  readonly input: z.ZodObject<P & Q & H & B, z.core.$strict>;
}

type NoFields = Readonly<Record<never, z.ZodType>>;

/** Completes a definition: absent parts have no fields, and the flat input is put together. */
export function defineContract<
  const R extends z.ZodType,
  P extends Shape = NoFields,
  Q extends Shape = NoFields,
  H extends Shape = NoFields,
  B extends Shape = NoFields,
>(
  definition: Omit<ContractDefinition<P, Q, H, B, R>, "params" | "query" | "headers" | "body"> & {
    params?: P;
    query?: Q;
    headers?: H;
    body?: B;
  },
): Contract<P, Q, H, B, R> {
  const parts = {
    params: definition.params ?? ({} as P),
    query: definition.query ?? ({} as Q),
    headers: definition.headers ?? ({} as H),
    body: definition.body ?? ({} as B),
  };
  const shape = { ...parts.params, ...parts.query, ...parts.headers, ...parts.body };
  return { ...definition, ...parts, input: z.strictObject(shape) as never };
}
