import type { z } from "zod";
import { BrokerError, type BrokerErrorCode } from "./broker-error.ts";
import { type BrokerSettings, SettingsAnswer, settingsOf } from "./broker-setting.ts";
import { CatchUpAnswer } from "./catch-up.ts";
import { MalformedMetrics, type MetricSample, parsePrometheusText } from "./prometheus-text.ts";

/** A broker that does not answer its admin HTTP in this time is treated as not answering at all. */
const REQUEST_TIMEOUT_MS = 2_000;
/** Bound of any answer: a metrics text of the largest broker is about 8 MiB. */
const BODY_BYTES_MAX = 32 * 1024 * 1024;
/** What a broker's answers other than a success mean; any other is `refused`. */
const CODE_BY_STATUS: Readonly<Partial<Record<number, BrokerErrorCode>>> = {
  401: "unauthorized",
  403: "unauthorized",
  // A broker of another version, whose admin HTTP has no such page.
  404: "unsupported",
  503: "not_ready",
};

export interface BrokerHttpOptions {
  /** `http://host:port`, no path. */
  readonly adminUrl: string;
  readonly adminToken: string;
  readonly timeoutMs?: number;
}

/** What `/v1/status` says, as far as the control plane uses it; `raw` is the whole answer. */
export interface BrokerStatus {
  readonly version: string | undefined;
  readonly clusterId: string | undefined;
  /** Milliseconds since the broker's process started. */
  readonly uptimeMs: number | undefined;
  readonly raw: Readonly<Record<string, unknown>>;
}

/**
 * A broker's admin HTTP. Every method throws `BrokerError` (`unreachable`, `timeout`,
 * `not_ready`, `unauthorized`, `unsupported`, `refused`, `malformed_answer`) unless it says otherwise.
 */
export class BrokerHttp {
  readonly #base: string;
  readonly #token: string;
  readonly #timeoutMs: number;

  constructor(options: BrokerHttpOptions) {
    this.#base = options.adminUrl.replace(/\/+$/, "");
    this.#token = options.adminToken;
    this.#timeoutMs = options.timeoutMs ?? REQUEST_TIMEOUT_MS;
  }

  /** Whether the broker serves Kafka clients now. Never throws. */
  async ready(): Promise<boolean> {
    try {
      await this.#get("/readyz");
      return true;
    } catch {
      return false;
    }
  }

  async status(): Promise<BrokerStatus> {
    const text = await this.#get("/v1/status");
    let raw: unknown;
    try {
      raw = JSON.parse(text);
    } catch (cause) {
      throw new BrokerError("malformed_answer", "the broker's status is not JSON", { cause });
    }
    if (!isObject(raw)) {
      throw new BrokerError("malformed_answer", "the broker's status is not an object");
    }
    return {
      version: stringOf(raw.version),
      clusterId: stringOf(raw.cluster_id),
      uptimeMs: typeof raw.uptime_ms === "number" ? raw.uptime_ms : undefined,
      raw,
    };
  }

  /** Every setting of the running broker with its bounds. */
  async settings(): Promise<BrokerSettings> {
    return settingsOf(await this.#json("/v1/config", SettingsAnswer));
  }

  /** How far each group is behind, and what its reads cost. */
  async catchUp(): Promise<CatchUpAnswer> {
    return await this.#json("/v1/catch-up", CatchUpAnswer);
  }

  async metrics(): Promise<MetricSample[]> {
    const text = await this.#get("/metrics");
    try {
      return parsePrometheusText(text);
    } catch (cause) {
      if (!(cause instanceof MalformedMetrics)) throw cause;
      throw new BrokerError("malformed_answer", cause.message, { cause });
    }
  }

  async #json<S extends z.ZodType>(path: string, schema: S): Promise<z.output<S>> {
    const text = await this.#get(path);
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw new BrokerError("malformed_answer", `the broker's ${path} is not JSON`, { cause });
    }
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const where = issue === undefined ? "" : `: ${issue.path.join("/")} ${issue.message}`;
    throw new BrokerError("malformed_answer", `the broker's ${path} is not what it was${where}`, {
      cause: parsed.error,
    });
  }

  async #get(path: string): Promise<string> {
    let response: Response;
    try {
      response = await fetch(this.#base + path, {
        headers: { authorization: `Bearer ${this.#token}` },
        redirect: "error",
        signal: AbortSignal.timeout(this.#timeoutMs),
      });
    } catch (cause) {
      throw this.#transportError(path, cause);
    }
    if (!response.ok) {
      await response.body?.cancel();
      const code = CODE_BY_STATUS[response.status] ?? "refused";
      throw new BrokerError(code, `the broker answered ${response.status} to ${path}`);
    }
    try {
      return await boundedText(response);
    } catch (cause) {
      if (cause instanceof BrokerError) throw cause;
      throw this.#transportError(path, cause);
    }
  }

  #transportError(path: string, cause: unknown): BrokerError {
    const timedOut = cause instanceof Error && cause.name === "TimeoutError";
    return timedOut
      ? new BrokerError("timeout", `the broker did not answer ${path} in ${this.#timeoutMs} ms`, {
          cause,
        })
      : new BrokerError("unreachable", `the broker's admin address does not answer (${path})`, {
          cause,
        });
  }
}

async function boundedText(response: Response): Promise<string> {
  if (response.body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of response.body) {
    bytes += chunk.byteLength;
    if (bytes > BODY_BYTES_MAX) {
      throw new BrokerError("malformed_answer", `an answer of more than ${BODY_BYTES_MAX} bytes`);
    }
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function stringOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
