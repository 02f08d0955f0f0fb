/**
 * How many requests are served: token buckets per address, per user or API key, and per organization, in
 * the memory of this process. Several processes behind a load balancer serve a multiple. The headers
 * follow draft-ietf-httpapi-ratelimit-headers.
 */
import {
  type BucketPolicy,
  type BucketState,
  DomainError,
  type Principal,
  principalKey,
  TokenBuckets,
  type UserId,
} from "@millrace/domain";

export type LimitName = "address" | "caller" | "organization";

/**
 * A page of the console opens with some twenty calls and then polls a few per second; Terraform reads one
 * resource per call, eight at a time. A caller's burst is many of both, and its rate what the database
 * answers easily. Behind one address there may be an office.
 */
export const REQUEST_POLICIES: Readonly<Record<LimitName, BucketPolicy>> = {
  address: { capacity: 2_000, perSecond: 200 },
  caller: { capacity: 600, perSecond: 60 },
  organization: { capacity: 1_500, perSecond: 150 },
};
/** About 200 bytes each. */
const KEYS_MAX = 50_000;

const WHOSE: Readonly<Record<LimitName, string>> = {
  address: "this address",
  caller: "this user or API key",
  organization: "this organization",
};

export class RequestLimits {
  readonly #buckets: Readonly<Record<LimitName, TokenBuckets>>;

  constructor(policies: Readonly<Record<LimitName, BucketPolicy>> = REQUEST_POLICIES) {
    this.#buckets = {
      address: new TokenBuckets(policies.address, KEYS_MAX),
      caller: new TokenBuckets(policies.caller, KEYS_MAX),
      organization: new TokenBuckets(policies.organization, KEYS_MAX),
    };
  }

  /** The limits of one request that stands for `calls` of them. */
  forRequest(calls: number): RequestCharge {
    return new RequestCharge(this.#buckets, calls);
  }
}

/** What one request took, and what the caller is told about it. */
class RequestCharge {
  readonly #buckets: Readonly<Record<LimitName, TokenBuckets>>;
  readonly #calls: number;
  /** In the order in which they were taken. */
  readonly #states: [name: LimitName, state: BucketState][] = [];

  constructor(buckets: Readonly<Record<LimitName, TokenBuckets>>, calls: number) {
    this.#buckets = buckets;
    this.#calls = calls;
  }

  /** Before anybody is asked who this is. Throws `rate_limited`. */
  takeAddress(address: string): void {
    this.#take("address", address);
  }

  /** Once the caller is known. Throws `rate_limited`. */
  takeCaller(principal: Principal): void {
    this.#take("caller", principalKey(principal));
    this.#take("organization", principal.organizationId);
  }

  /** Of somebody who asks for no organization. Throws `rate_limited`. */
  takeUser(id: UserId): void {
    this.#take("caller", id);
  }

  /** Of the limit that is closest to its end; the address counts only as long as nobody is known. */
  headers(): Record<string, string> {
    const known = this.#states.filter(([name]) => name !== "address");
    const states = known.length > 0 ? known : this.#states;
    const [tightest] = [...states].sort(([a, left], [b, right]) => {
      if (left.taken !== right.taken) return left.taken ? 1 : -1;
      return this.#share(a, left) - this.#share(b, right);
    });
    if (tightest === undefined) return {};
    const [name, { taken, remaining, fullInSeconds, retryInSeconds }] = tightest;
    const policies = states.map(([each]) => this.#policy(each));
    return {
      "RateLimit-Policy": policies.join(", "),
      RateLimit: `"${name}";r=${remaining};t=${fullInSeconds}`,
      ...(!taken && { "Retry-After": String(retryInSeconds) }),
    };
  }

  #take(name: LimitName, key: string): void {
    const state = this.#buckets[name].take(key, this.#calls);
    this.#states.push([name, state]);
    if (state.taken) return;
    const { perSecond } = this.#buckets[name].policy;
    throw new DomainError(
      "rate_limited",
      `Too many requests from ${WHOSE[name]}. The limit is ${perSecond} per second.`,
      { remedy: "Retry later.", retryAfterSeconds: state.retryInSeconds },
    );
  }

  #share(name: LimitName, { remaining }: BucketState): number {
    return remaining / this.#buckets[name].policy.capacity;
  }

  /** Quota, and the seconds in which it comes back. */
  #policy(name: LimitName): string {
    const { capacity, perSecond } = this.#buckets[name].policy;
    return `"${name}";q=${capacity};w=${Math.ceil(capacity / perSecond)}`;
  }
}

export type { RequestCharge };
