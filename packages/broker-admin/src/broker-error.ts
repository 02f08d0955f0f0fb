/** What a broker, or the way to it, answered; stable, for callers to act on. */
export type BrokerErrorCode =
  /** Nothing listens, or the connection broke. Retry once the broker runs. */
  | "unreachable"
  /** No answer within the bound. The request may have been carried out: look before a retry. */
  | "timeout"
  /** It runs, and does not serve yet. Retry in a moment. */
  | "not_ready"
  /** It serves, and cannot carry out this request now; `kafkaError` names why. Retry in a moment. */
  | "temporarily_failed"
  /** The admin token is wrong. Fix the token; a retry does not help. */
  | "unauthorized"
  | "topic_exists"
  | "topic_not_found"
  /** The broker refuses the name. */
  | "invalid_topic_name"
  | "invalid_partitions"
  | "invalid_config"
  | "user_not_found"
  /** The broker refuses a user's name or credential; `said` tells why. */
  | "invalid_user"
  /** The broker has no authorizer: ACLs have no effect. */
  | "authorization_off"
  /** `admin.records.enabled` is false: the broker has no records over its admin HTTP. `said` tells what to do. */
  | "records_disabled"
  | "group_not_found"
  /** The group has members; stop them first. */
  | "group_not_empty"
  /** The smoke check read back something else than it wrote. */
  | "smoke_mismatch"
  /** The broker does not serve this request. */
  | "unsupported"
  /** The broker answered with anything else; `kafkaError` names it where Kafka has a name for it. */
  | "refused"
  /** The answer could not be understood. */
  | "malformed_answer"
  /** The broker rejects a parameter; `said` tells which and why. */
  | "invalid_request"
  | "request_too_large"
  /** The broker serves as many such requests as it can; retry after `retryAfterSeconds`. */
  | "busy";

const RETRYABLE: ReadonlySet<BrokerErrorCode> = new Set([
  "unreachable",
  "timeout",
  "not_ready",
  "temporarily_failed",
  "busy",
]);

/** Kafka's error names (KIP-less, from the protocol's table) that callers can act on. */
export const CODE_BY_KAFKA_ERROR: Readonly<Record<string, BrokerErrorCode>> = {
  TOPIC_ALREADY_EXISTS: "topic_exists",
  UNKNOWN_TOPIC_OR_PARTITION: "topic_not_found",
  UNKNOWN_TOPIC_ID: "topic_not_found",
  INVALID_TOPIC_EXCEPTION: "invalid_topic_name",
  INVALID_PARTITIONS: "invalid_partitions",
  INVALID_CONFIG: "invalid_config",
  // Of users' credentials only.
  RESOURCE_NOT_FOUND: "user_not_found",
  UNACCEPTABLE_CREDENTIAL: "invalid_user",
  SECURITY_DISABLED: "authorization_off",
  GROUP_ID_NOT_FOUND: "group_not_found",
  NON_EMPTY_GROUP: "group_not_empty",
  INVALID_REQUEST: "invalid_request",
  REQUEST_TIMED_OUT: "timeout",
  UNSUPPORTED_VERSION: "unsupported",
};

export class BrokerError extends Error {
  override readonly name = "BrokerError";
  readonly code: BrokerErrorCode;
  /** Kafka's own name of the error, such as `POLICY_VIOLATION`, where the broker gave one. */
  readonly kafkaError: string | undefined;
  /** The broker's own words, where it gave any. */
  readonly said: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: BrokerErrorCode,
    message: string,
    options?: ErrorOptions & {
      kafkaError?: string | undefined;
      said?: string | undefined;
      retryAfterSeconds?: number | undefined;
    },
  ) {
    super(message, options);
    this.code = code;
    this.kafkaError = options?.kafkaError;
    this.said = options?.said;
    this.retryAfterSeconds = options?.retryAfterSeconds;
  }

  /** Whether the same call may succeed later without a change. */
  get retryable(): boolean {
    return RETRYABLE.has(this.code);
  }
}

/** Settles as `promise` does, or fails with `timeout` after `timeoutMs`. The work itself goes on. */
export async function withDeadline<T>(
  promise: Promise<T>,
  timeoutMs: number,
  action: string,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new BrokerError("timeout", `could not ${action} within ${timeoutMs} ms`)),
      timeoutMs,
    );
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
