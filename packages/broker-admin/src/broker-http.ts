import type { BrokerStorage, QuotaUsage } from "@millrace/domain";
import { type AdminAddress, AdminTransport } from "./admin-transport.ts";
import { BrokerError } from "./broker-error.ts";
import { BrokerRecords } from "./broker-records.ts";
import { type BrokerSettings, SettingsAnswer, settingsOf } from "./broker-setting.ts";
import { StorageAnswer, storageOf } from "./broker-storage.ts";
import { CatchUpAnswer } from "./catch-up.ts";
import { MalformedMetrics, type MetricSample, parsePrometheusText } from "./prometheus-text.ts";
import { QuotaUsageAnswer, quotaUsageOf } from "./quota-usage.ts";

/** A broker that does not answer its admin HTTP in this time is treated as not answering at all. */
const REQUEST_TIMEOUT_MS = 2_000;
/** Bound of any answer: a metrics text of the largest broker is about 8 MiB. */
const BODY_BYTES_MAX = 32 * 1024 * 1024;

export interface BrokerHttpOptions extends AdminAddress {
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
 * A broker's admin HTTP. Every method throws `BrokerError` (`unreachable`, `timeout`, `not_ready`,
 * `unauthorized`, `unsupported`, `refused`, `malformed_answer`, `invalid_request`) unless it says
 * otherwise.
 */
export class BrokerHttp {
  /** Records of its topics, which have bounds of their own. */
  readonly records: BrokerRecords;
  readonly #transport: AdminTransport;
  readonly #bounds: { readonly timeoutMs: number; readonly bytesMax: number };

  constructor(options: BrokerHttpOptions) {
    this.#transport = new AdminTransport(options);
    this.#bounds = {
      timeoutMs: options.timeoutMs ?? REQUEST_TIMEOUT_MS,
      bytesMax: BODY_BYTES_MAX,
    };
    this.records = new BrokerRecords(this.#transport);
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

  /** How full the write-ahead log is, and whether uploads keep up. `not_ready` until clients are served. */
  async storage(): Promise<BrokerStorage> {
    const storage = storageOf(
      await this.#transport.json("/v1/status", StorageAnswer, this.#bounds),
    );
    if (storage !== undefined) return storage;
    throw new BrokerError("not_ready", "the broker's storage is not open yet");
  }

  /** Every setting of the running broker with its bounds. */
  async settings(): Promise<BrokerSettings> {
    return settingsOf(await this.#transport.json("/v1/config", SettingsAnswer, this.#bounds));
  }

  /** How far each group is behind, and what its reads cost. */
  async catchUp(): Promise<CatchUpAnswer> {
    return await this.#transport.json("/v1/catch-up", CatchUpAnswer, this.#bounds);
  }

  /** What clients with quotas used lately. */
  async quotaUsage(): Promise<QuotaUsage[]> {
    return quotaUsageOf(await this.#transport.json("/v1/quotas", QuotaUsageAnswer, this.#bounds));
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

  #get(path: string): Promise<string> {
    return this.#transport.text(path, this.#bounds);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function stringOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
