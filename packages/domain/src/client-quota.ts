/** Limits of Kafka clients (KIP-13, KIP-124, KIP-599), by Kafka's names. */
export const QUOTA_LIMITS = [
  "producer_byte_rate",
  "consumer_byte_rate",
  "request_percentage",
  "controller_mutation_rate",
] as const;
export type QuotaLimit = (typeof QUOTA_LIMITS)[number];

/** The name that stands for every user, or every client id, without a quota of its own; as in Kafka's tools. */
export const QUOTA_DEFAULT = "<default>";

/**
 * Whose quota it is: a user, a client id, or a client id of a user. Where several fit a client, the most
 * specific one counts: user and client id before user before client id, each name before the default.
 */
export interface QuotaEntity {
  readonly user: string | undefined;
  readonly clientId: string | undefined;
}

export interface ClientQuota extends QuotaEntity {
  readonly limits: Readonly<Partial<Record<QuotaLimit, number>>>;
}

/** How much the clients that share a quota used lately. */
export interface QuotaUsage extends QuotaEntity {
  readonly quota: QuotaLimit;
  readonly limit: number;
  /** Per second, in the unit of the limit. */
  readonly rate: number;
  /** How long they are slowed down now. */
  readonly throttleMs: number;
}

/** What shall change; null removes a limit. */
export type QuotaChanges = Readonly<Partial<Record<QuotaLimit, number | null | undefined>>>;

/** Kafka's client ids are strings of 16-bit length; nobody needs one that long. */
export const CLIENT_ID_MAX = 255;
/** Bytes per second: more than any network carries, and exact as a JSON number. */
export const QUOTA_RATE_MAX = 1e12;
/** Percent of one processor. */
export const QUOTA_PERCENTAGE_MAX = 100_000;

/** The same for the same entity, different for others. */
export function quotaKey({ user, clientId }: QuotaEntity): string {
  return JSON.stringify([user ?? null, clientId ?? null]);
}
