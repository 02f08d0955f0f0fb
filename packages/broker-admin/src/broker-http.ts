import type {
  Acl,
  AclFilter,
  BrokerReport,
  BrokerStorage,
  ClientMetricsFilter,
  ClientQuota,
  ClusterMembers,
  ClusterUser,
  MeasuredClients,
  QuotaChanges,
  QuotaEntity,
  QuotaUsage,
  ScramMechanism,
} from "@millrace/domain";
import { type AdminAddress, type AdminRequest, AdminTransport } from "./admin-transport.ts";
import { AclDeletionAnswer, AclsAnswer, aclFields, aclOf } from "./broker-acls.ts";
import { ClusterAnswer, membersOf } from "./broker-cluster.ts";
import { BrokerError } from "./broker-error.ts";
import { BrokerGroups } from "./broker-groups.ts";
import { ClientQuotasAnswer, clientQuotasOf, entityParts } from "./broker-quotas.ts";
import { BrokerRecords } from "./broker-records.ts";
import { type BrokerSettings, SettingsAnswer, settingsOf } from "./broker-setting.ts";
import { StorageAnswer, storageOf } from "./broker-storage.ts";
import { BrokerTopics } from "./broker-topics.ts";
import { credentialOf, UserAnswer, UsersAnswer, userOf } from "./broker-users.ts";
import { CatchUpAnswer } from "./catch-up.ts";
import { ClientMetricsAnswer, measuredClientsOf } from "./client-metrics.ts";
import { type BrokerMetrics, parseFamilies } from "./open-metrics.ts";
import {
  type LineFilter,
  MalformedMetrics,
  type MetricSample,
  parsePrometheusText,
} from "./prometheus-text.ts";
import { QuotaUsageAnswer, quotaUsageOf } from "./quota-usage.ts";

/** A broker that does not answer its admin HTTP in this time is treated as not answering at all. */
const REQUEST_TIMEOUT_MS = 2_000;
/** Changes are stored before they are answered, and long lists take their time. */
const CHANGE_TIMEOUT_MS = 10_000;
/** Bound of any answer: a metrics text of the largest broker is about 8 MiB. */
const BODY_BYTES_MAX = 32 * 1024 * 1024;

export interface BrokerHttpOptions extends AdminAddress {
  /** Kafka's node id; that of the slot, or 0, if absent. */
  readonly brokerId?: number | undefined;
  /** For every request; by default reads of the broker's own state take less than what its clients manage. */
  readonly timeoutMs?: number;
}

/** What shall change of a broker's settings. */
export interface SettingsChange {
  readonly set: Readonly<Record<string, string>>;
  /** Only asks whether the broker would take them. */
  readonly validateOnly?: boolean;
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
  readonly topics: BrokerTopics;
  readonly groups: BrokerGroups;
  readonly #brokerId: number;
  readonly #transport: AdminTransport;
  readonly #bounds: { readonly timeoutMs: number; readonly bytesMax: number };
  /** Of what takes longer. */
  readonly #wideBounds: { readonly timeoutMs: number; readonly bytesMax: number };

  constructor(options: BrokerHttpOptions) {
    this.#brokerId = options.brokerId ?? options.slot?.brokerId ?? 0;
    this.#transport = new AdminTransport(options);
    this.#bounds = {
      timeoutMs: options.timeoutMs ?? REQUEST_TIMEOUT_MS,
      bytesMax: BODY_BYTES_MAX,
    };
    this.#wideBounds = {
      timeoutMs: options.timeoutMs ?? CHANGE_TIMEOUT_MS,
      bytesMax: BODY_BYTES_MAX,
    };
    this.records = new BrokerRecords(this.#transport);
    this.topics = new BrokerTopics(this.#transport);
    this.groups = new BrokerGroups(this.#transport);
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

  /** What it says of itself, under its id. */
  async brokerReports(): Promise<BrokerReport[]> {
    const { version, uptimeMs, raw } = await this.status();
    const storage = StorageAnswer.safeParse(raw);
    return [
      {
        ...{ brokerId: this.#brokerId, version, uptimeMs },
        storage: storage.success ? storageOf(storage.data) : undefined,
      },
    ];
  }

  /** How full the write-ahead log is, and whether uploads keep up. `not_ready` until clients are served. */
  async storage(): Promise<BrokerStorage> {
    const storage = storageOf(
      await this.#transport.json("/v1/status", StorageAnswer, this.#bounds),
    );
    if (storage !== undefined) return storage;
    throw new BrokerError("not_ready", "the broker's storage is not open yet");
  }

  /** The brokers of the cluster; any of several answers for all. `unsupported` by a broker that is alone. */
  async cluster(): Promise<ClusterMembers> {
    return membersOf(await this.#transport.json("/v1/cluster", ClusterAnswer, this.#wideBounds));
  }

  /**
   * Has a broker of the cluster give away all that it leads. Returns when the moves are planned; they are done once it leads
   * nothing. It is given nothing more until it is restarted.
   */
  async drain(brokerId: number): Promise<void> {
    await this.#change("POST", "/v1/cluster/drain", { node_id: brokerId });
  }

  /** Every setting of the running broker with its bounds. */
  async settings(): Promise<BrokerSettings> {
    return settingsOf(await this.#transport.json("/v1/config", SettingsAnswer, this.#bounds));
  }

  /**
   * Sets settings while the broker runs (KIP-339), all or none. `invalid_config` where the broker
   * refuses one, with its words in `said`.
   */
  async changeSettings({ set, validateOnly }: SettingsChange): Promise<void> {
    if (Object.keys(set).length === 0) return;
    await this.#change("PATCH", "/v1/config", { set, validate_only: validateOnly ?? false });
  }

  /** Every user that the broker has a credential of, in order of its name. */
  async listUsers(): Promise<ClusterUser[]> {
    const { users } = await this.#transport.json("/v1/users", UsersAnswer, this.#wideBounds);
    return users.map(userOf);
  }

  /** `user_not_found` where there is none. */
  async describeUser(name: string): Promise<ClusterUser> {
    return userOf(await this.#transport.json(userPath(name), UserAnswer, this.#wideBounds));
  }

  /** Makes the user where there is none. Each mechanism has a password of its own: others stay as they are. */
  async putPassword(
    name: string,
    password: string,
    mechanisms: readonly ScramMechanism[],
  ): Promise<void> {
    const put = await Promise.all(mechanisms.map((each) => credentialOf(password, each)));
    await this.#change("PATCH", userPath(name), { put });
  }

  /** A user without any credential is no user. `user_not_found` where one of them is not there. */
  async removeCredentials(name: string, mechanisms: readonly ScramMechanism[]): Promise<void> {
    await this.#change("PATCH", userPath(name), { remove: mechanisms });
  }

  /** `authorization_off` where the broker has no authorizer; of all ACLs' methods. */
  async listAcls(filter: AclFilter = {}): Promise<Acl[]> {
    const path = withQuery("/v1/acls", aclFields(filter));
    const { acls } = await this.#transport.json(path, AclsAnswer, this.#wideBounds);
    return acls.map(aclOf);
  }

  /** All or none. One that is there already stays. */
  async createAcls(acls: readonly Acl[]): Promise<void> {
    if (acls.length === 0) return;
    await this.#change("POST", "/v1/acls", { acls: acls.map(aclFields) });
  }

  /** Whether the rule was there. */
  async deleteAcl(acl: Acl): Promise<boolean> {
    const path = withQuery("/v1/acls", aclFields(acl));
    const request = { ...this.#wideBounds, method: "DELETE" } as const;
    return (await this.#transport.json(path, AclDeletionAnswer, request)).deleted;
  }

  /** Every quota of users and client ids. */
  async listQuotas(): Promise<ClientQuota[]> {
    const path = "/v1/client-quotas";
    return clientQuotasOf(await this.#transport.json(path, ClientQuotasAnswer, this.#wideBounds));
  }

  /** Sets and removes limits of one entity; the others stay. */
  async alterQuota(entity: QuotaEntity, changes: QuotaChanges): Promise<void> {
    const body = { entity: entityParts(entity), limits: changes };
    await this.#change("PATCH", "/v1/client-quotas", body);
  }

  /** How far each group is behind, and what its reads cost. */
  async catchUp(): Promise<CatchUpAnswer> {
    return await this.#transport.json("/v1/catch-up", CatchUpAnswer, this.#bounds);
  }

  /** What clients pushed last of their own metrics. */
  async clientMetrics({ clientId, metric, limit }: ClientMetricsFilter): Promise<MeasuredClients> {
    const fields = { client_id: clientId, metric, limit: String(limit) };
    const path = withQuery("/v1/client-metrics", fields);
    return measuredClientsOf(await this.#transport.json(path, ClientMetricsAnswer, this.#bounds));
  }

  /** What clients with quotas used lately. */
  async quotaUsage(): Promise<QuotaUsage[]> {
    return quotaUsageOf(await this.#transport.json("/v1/quotas", QuotaUsageAnswer, this.#bounds));
  }

  /** All samples, or those whose line passes the filter. */
  async metrics(isWanted?: LineFilter): Promise<MetricSample[]> {
    return await this.#metrics((text) => parsePrometheusText(text, isWanted));
  }

  /** All that it exposes, with types, under its id. */
  async brokerMetrics(): Promise<BrokerMetrics[]> {
    return [{ brokerId: this.#brokerId, families: await this.#metrics(parseFamilies) }];
  }

  async #metrics<T>(parse: (text: string) => T): Promise<T> {
    const text = await this.#get("/metrics");
    try {
      return parse(text);
    } catch (cause) {
      if (!(cause instanceof MalformedMetrics)) throw cause;
      throw new BrokerError("malformed_answer", cause.message, { cause });
    }
  }

  #get(path: string): Promise<string> {
    return this.#transport.text(path, this.#bounds);
  }

  /** After `timeout` and `unreachable` nobody knows whether the change is made. */
  async #change(
    method: NonNullable<AdminRequest["method"]>,
    path: string,
    body: object,
  ): Promise<void> {
    const request = { ...this.#wideBounds, method, body: JSON.stringify(body) };
    await this.#transport.text(path, request);
  }
}

function userPath(name: string): string {
  return `/v1/users/${encodeURIComponent(name)}`;
}

/** Fields without a value are left out. */
function withQuery(path: string, fields: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) query.set(name, value);
  }
  return query.size === 0 ? path : `${path}?${query}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function stringOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
