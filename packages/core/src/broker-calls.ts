import {
  type BucketPolicy,
  DomainError,
  type OrganizationId,
  TokenBuckets,
} from "@millrace/domain";

/**
 * Calls to brokers on behalf of one organization's callers. A tab of the console makes one or two per second;
 * Terraform makes one per topic that it reads or changes. A broker answers them beside its clients.
 */
const CALLS: BucketPolicy = { capacity: 300, perSecond: 30 };
/** Each call over Kafka's protocol is a connection of its own. */
const CONNECTIONS_PER_ORGANIZATION_MAX = 16;
const ORGANIZATIONS_MAX = 10_000;

/** Bounds how much one organization's callers ask of its brokers, in this process. */
export class BrokerCalls {
  readonly #calls: TokenBuckets;
  readonly #connections = new Map<OrganizationId, number>();

  constructor(policy: BucketPolicy = CALLS) {
    this.#calls = new TokenBuckets(policy, ORGANIZATIONS_MAX);
  }

  /** Throws `rate_limited`. */
  take(organization: OrganizationId): void {
    const { taken, retryInSeconds } = this.#calls.take(organization);
    if (taken) return;
    throw new DomainError(
      "rate_limited",
      `This organization's limit is ${this.#calls.policy.perSecond} broker requests per second.`,
      {
        remedy: "Retry later.",
        retryAfterSeconds: retryInSeconds,
      },
    );
  }

  /** Runs a call that opens a connection. Throws `rate_limited`. */
  async connected<T>(organization: OrganizationId, call: () => Promise<T>): Promise<T> {
    const open = this.#connections.get(organization) ?? 0;
    if (open >= CONNECTIONS_PER_ORGANIZATION_MAX) {
      throw new DomainError(
        "rate_limited",
        `At most ${CONNECTIONS_PER_ORGANIZATION_MAX} requests to brokers per organization at a time.`,
        { remedy: "Wait for another request to complete.", retryAfterSeconds: 1 },
      );
    }
    this.take(organization);
    this.#connections.set(organization, open + 1);
    try {
      return await call();
    } finally {
      const left = (this.#connections.get(organization) ?? 1) - 1;
      if (left > 0) this.#connections.set(organization, left);
      else this.#connections.delete(organization);
    }
  }
}
