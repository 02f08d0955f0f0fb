/** A burst of `capacity` tokens, and `perSecond` of them back again. */
export interface BucketPolicy {
  readonly capacity: number;
  readonly perSecond: number;
}

export interface BucketState {
  readonly taken: boolean;
  /** Whole tokens left. */
  readonly remaining: number;
  /** Seconds until the bucket is full again. */
  readonly fullInSeconds: number;
  /** Seconds until what was asked for is there; 0 where it was taken. */
  readonly retryInSeconds: number;
}

interface Bucket {
  tokens: number;
  at: number;
}

/**
 * One token bucket per key, in the memory of this process. A bucket that is full again need not be
 * remembered, so the memory is bounded by the keys of the last `capacity / perSecond` seconds, and by
 * `keysMax`: beyond it the key unused for longest starts over with a full bucket.
 */
export class TokenBuckets {
  readonly policy: BucketPolicy;
  readonly #keysMax: number;
  readonly #now: () => number;
  /** The key used last is the last one. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(policy: BucketPolicy, keysMax: number, now: () => number = () => performance.now()) {
    this.policy = policy;
    this.#keysMax = keysMax;
    this.#now = now;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Takes `tokens` of the key's bucket, or none. More than it can hold are taken as all it can hold. */
  take(key: string, tokens = 1): BucketState {
    const { capacity, perSecond } = this.policy;
    const wanted = Math.min(tokens, capacity);
    const now = this.#now();
    const bucket = this.#buckets.get(key) ?? { tokens: capacity, at: now };
    const refilled = bucket.tokens + ((now - bucket.at) / 1_000) * perSecond;
    bucket.tokens = Math.min(capacity, refilled);
    bucket.at = now;
    const taken = bucket.tokens >= wanted;
    if (taken) bucket.tokens -= wanted;
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    this.#forget(now);
    return {
      taken,
      remaining: Math.floor(bucket.tokens),
      fullInSeconds: Math.ceil((capacity - bucket.tokens) / perSecond),
      retryInSeconds: taken ? 0 : Math.max(1, Math.ceil((wanted - bucket.tokens) / perSecond)),
    };
  }

  /** Oldest first: at most two go for each one that comes, so that no request pays for all. */
  #forget(now: number): void {
    const fullAfterMs = (this.policy.capacity / this.policy.perSecond) * 1_000;
    let looked = 0;
    for (const [key, { at }] of this.#buckets) {
      if (this.#buckets.size <= this.#keysMax && now - at < fullAfterMs) return;
      if (looked === 2) return;
      looked += 1;
      this.#buckets.delete(key);
    }
  }
}
