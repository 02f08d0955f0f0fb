import {
  type BrokerSlot,
  GATEWAY_ERROR_HEADER,
  type GatewayErrorCode,
  LINK_HEADERS,
} from "@millrace/domain";
import type { z } from "zod";
import { BrokerError, type BrokerErrorCode, CODE_BY_KAFKA_ERROR } from "./broker-error.ts";

/** What a broker's answers other than a success mean; any other is `refused`. */
const CODE_BY_STATUS: Readonly<Partial<Record<number, BrokerErrorCode>>> = {
  400: "invalid_request",
  401: "unauthorized",
  403: "unauthorized",
  // A broker of another version, whose admin HTTP has no such page.
  404: "unsupported",
  405: "unsupported",
  413: "request_too_large",
  429: "busy",
  503: "not_ready",
};
/** Errors that the broker names; the name says more than the status. */
const CODE_BY_NAME: Readonly<Record<string, BrokerErrorCode>> = {
  ...CODE_BY_KAFKA_ERROR,
  RECORDS_DISABLED: "records_disabled",
};
/** What a broker answers to everything while it starts. */
const STARTING = "BROKER_NOT_AVAILABLE";
/** A gateway's own errors: it has no answer of the broker. */
const CODE_BY_GATEWAY: Readonly<Record<GatewayErrorCode, BrokerErrorCode>> = {
  UNAUTHORIZED: "unauthorized",
  NOT_FOUND: "unsupported",
  WRONG_BROKER: "malformed_answer",
  BROKER_BUSY: "busy",
  // It may have carried out the request.
  BROKER_DISCONNECTED: "timeout",
  BROKER_NOT_CONNECTED: "unreachable",
  BROKER_TIMEOUT: "timeout",
};
/** An error's body is one sentence and its name. */
const ERROR_BYTES_MAX = 64 * 1024;

export interface AdminAddress {
  /** `http://host:port`; at a gateway with the broker's path. */
  readonly adminUrl: string;
  readonly adminToken: string;
  /** Whose answers are expected: one that does not name this broker is rejected. Absent for earlier versions of brokers. */
  readonly slot?: BrokerSlot | undefined;
}

export interface AdminRequest {
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE";
  readonly accept?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** For the whole answer; for the head of a stream. */
  readonly timeoutMs: number;
  /** Bound of the answer. */
  readonly bytesMax: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Requests to one broker's admin HTTP. Every method throws `BrokerError`, and nothing else unless
 * the request's own `signal` aborts.
 */
export class AdminTransport {
  readonly #base: string;
  readonly #token: string;
  readonly #ids: Readonly<Record<string, string>>;

  constructor({ adminUrl, adminToken, slot }: AdminAddress) {
    this.#ids = slot === undefined ? {} : idsOf(slot);
    this.#base = adminUrl.replace(/\/+$/, "");
    this.#token = adminToken;
  }

  async text(path: string, request: AdminRequest): Promise<string> {
    const timeout = AbortSignal.timeout(request.timeoutMs);
    const response = await this.#fetch(path, request, timeout);
    try {
      return await boundedText(response, request.bytesMax);
    } catch (cause) {
      throw this.#transportError(path, request, timeout, cause);
    }
  }

  async json<S extends z.ZodType>(
    path: string,
    schema: S,
    request: AdminRequest,
  ): Promise<z.output<S>> {
    const text = await this.text(path, request);
    const page = path.split("?", 1)[0];
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw new BrokerError("malformed_answer", `the broker's ${page} is not JSON`, { cause });
    }
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const where = issue === undefined ? "" : `: ${issue.path.join("/")} ${issue.message}`;
    throw new BrokerError("malformed_answer", `the broker's ${page} has another shape${where}`, {
      cause: parsed.error,
    });
  }

  /**
   * The body of an answer without end, once its head is there. It is read no faster than the
   * caller reads, down to the broker's socket; `signal` closes the connection.
   */
  async stream(
    path: string,
    request: Omit<AdminRequest, "bytesMax">,
  ): Promise<ReadableStream<Uint8Array>> {
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), request.timeoutMs);
    try {
      const { body } = await this.#fetch(
        path,
        { ...request, bytesMax: ERROR_BYTES_MAX },
        timeout.signal,
      );
      if (body === null) throw new BrokerError("malformed_answer", "a stream without a body");
      return body as ReadableStream<Uint8Array>;
    } finally {
      clearTimeout(timer);
    }
  }

  async #fetch(path: string, request: AdminRequest, timeout: AbortSignal): Promise<Response> {
    const { method = "GET", accept, headers, body, signal } = request;
    let response: Response;
    try {
      response = await fetch(this.#base + path, {
        method,
        headers: {
          authorization: `Bearer ${this.#token}`,
          ...this.#ids,
          ...(accept !== undefined && { accept }),
          ...(body !== undefined && { "content-type": "application/json" }),
          ...headers,
        },
        ...(body !== undefined && { body }),
        redirect: "error",
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      });
    } catch (cause) {
      throw this.#transportError(path, request, timeout, cause);
    }
    const byGateway = response.headers.get(GATEWAY_ERROR_HEADER);
    if (byGateway !== null) throw await refusal(path, response, byGateway as GatewayErrorCode);
    await this.#assertRightBroker(path, response);
    if (!response.ok) throw await refusal(path, response);
    return response;
  }

  /** Before anything else of the answer counts, an error included. */
  async #assertRightBroker(path: string, response: Response): Promise<void> {
    for (const [header, expected] of Object.entries(this.#ids)) {
      const found = response.headers.get(header);
      if (found === expected) continue;
      await response.body?.cancel();
      const message = `the answer to ${path} has ${header} ${found ?? "not"}, expected ${expected}`;
      throw new BrokerError("malformed_answer", message);
    }
  }

  #transportError(
    path: string,
    { timeoutMs, signal }: AdminRequest,
    timeout: AbortSignal,
    cause: unknown,
  ): unknown {
    if (cause instanceof BrokerError) return cause;
    if (signal?.aborted) return signal.reason;
    return timeout.aborted
      ? new BrokerError("timeout", `the broker did not answer ${path} in ${timeoutMs} ms`, {
          cause,
        })
      : new BrokerError("unreachable", `the broker's admin address does not answer (${path})`, {
          cause,
        });
  }
}

function idsOf({ clusterId, brokerId }: BrokerSlot): Record<string, string> {
  return { [LINK_HEADERS.cluster]: clusterId, [LINK_HEADERS.broker]: String(brokerId) };
}

/** The error of the broker, or of the gateway, where it names one: `{"error":{"code","message"}}`. */
async function refusal(
  path: string,
  response: Response,
  byGateway?: GatewayErrorCode,
): Promise<BrokerError> {
  const { name, said } = await errorOf(response);
  const code =
    (byGateway && CODE_BY_GATEWAY[byGateway]) ??
    CODE_BY_NAME[name ?? ""] ??
    codeOfStatus(response.status, name);
  const seconds = Number(response.headers.get("retry-after"));
  return new BrokerError(code, said ?? `the broker answered ${response.status} to ${path}`, {
    kafkaError: name,
    said,
    ...(Number.isInteger(seconds) && seconds > 0 && { retryAfterSeconds: seconds }),
  });
}

/** A broker that starts has a name of its own for that; with any other it serves, and a retry may succeed. */
function codeOfStatus(status: number, name: string | undefined): BrokerErrorCode {
  if (status === 503 && name !== undefined && name !== STARTING) return "temporarily_failed";
  return CODE_BY_STATUS[status] ?? "refused";
}

async function errorOf(response: Response): Promise<{ name?: string; said?: string }> {
  try {
    const value: unknown = JSON.parse(await boundedText(response, ERROR_BYTES_MAX));
    const { code, message } = (value as { error: Record<string, unknown> }).error;
    return {
      ...(typeof code === "string" && { name: code }),
      ...(typeof message === "string" && { said: message }),
    };
  } catch {
    // Not every page explains itself, and the status says enough.
    return {};
  }
}

/** Throws `malformed_answer` for a body beyond the bound, and closes its connection. */
async function boundedText(response: Response, bytesMax: number): Promise<string> {
  if (response.body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of response.body) {
    bytes += chunk.byteLength;
    if (bytes > bytesMax) {
      throw new BrokerError("malformed_answer", `an answer of more than ${bytesMax} bytes`);
    }
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
