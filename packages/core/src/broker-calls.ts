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
const ORGANIZATIONS_MAX = 10_000;

/** Bounds how much one organization's callers ask of its brokers, in this process. */
export class BrokerCalls {
  readonly #calls: TokenBuckets;

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
}
