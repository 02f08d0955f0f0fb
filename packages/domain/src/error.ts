/** What a failed field looked like; `pointer` is an RFC 6901 JSON pointer into the request. */
export interface FieldError {
  readonly pointer: string;
  readonly code: string;
  readonly message: string;
}

interface ErrorKind {
  /** HTTP status that every transport answers with; it is mapped here and nowhere else. */
  readonly status: number;
  readonly title: string;
  /** Whether the same request may succeed when sent again without change. */
  readonly retryable: boolean;
}

/** Every failure a caller can see. Codes are part of the public API and never change meaning. */
export const ERROR_KINDS = {
  validation_failed: { status: 400, title: "Invalid request", retryable: false },
  invalid_page_token: { status: 400, title: "Invalid page token", retryable: false },
  unauthenticated: { status: 401, title: "Not authenticated", retryable: false },
  reauthentication_required: { status: 403, title: "Confirm your identity", retryable: false },
  forbidden: { status: 403, title: "Not allowed", retryable: false },
  sso_required: { status: 403, title: "Single sign-on required", retryable: false },
  sso_failed: { status: 403, title: "Single sign-on failed", retryable: false },
  not_found: { status: 404, title: "Not found", retryable: false },
  /** Distinct from `not_found`: clients drop a resource that is gone, and not because of a wrong URL. */
  route_not_found: { status: 404, title: "Route not found", retryable: false },
  cluster_name_taken: { status: 409, title: "Cluster name taken", retryable: false },
  topic_name_taken: { status: 409, title: "Topic already exists", retryable: false },
  user_name_taken: { status: 409, title: "User already exists", retryable: false },
  environment_name_taken: { status: 409, title: "Environment name taken", retryable: false },
  environment_not_empty: { status: 409, title: "Environment not empty", retryable: false },
  role_name_taken: { status: 409, title: "Role name taken", retryable: false },
  role_in_use: { status: 409, title: "Role in use", retryable: false },
  service_account_name_taken: {
    status: 409,
    title: "Service account name taken",
    retryable: false,
  },
  deletion_protected: { status: 409, title: "Deletion protection is on", retryable: false },
  already_member: { status: 409, title: "Already a member", retryable: false },
  account_exists: { status: 409, title: "Account exists", retryable: false },
  sso_domain_taken: { status: 409, title: "Domain taken", retryable: false },
  last_owner: { status: 409, title: "Last owner", retryable: false },
  invitation_invalid: { status: 410, title: "Invitation no longer valid", retryable: false },
  mail_text_unavailable: { status: 410, title: "Mail text no longer available", retryable: false },
  operation_not_cancellable: {
    status: 409,
    title: "Operation cannot be cancelled",
    retryable: false,
  },
  operation_not_retryable: {
    status: 409,
    title: "Operation cannot be retried",
    retryable: false,
  },
  approval_not_awaited: {
    status: 409,
    title: "Operation is not waiting for approval",
    retryable: false,
  },
  access_changed: { status: 409, title: "Access has changed", retryable: false },
  tuning_changed_since: { status: 409, title: "Settings have changed since", retryable: false },
  plan_changed: { status: 409, title: "Plan has changed", retryable: false },
  cluster_busy: { status: 409, title: "Another operation is running", retryable: true },
  cluster_not_ready: { status: 409, title: "Cluster not ready", retryable: true },
  cluster_serving: { status: 409, title: "The broker serves", retryable: false },
  benchmark_refused: { status: 409, title: "Benchmark refused", retryable: true },
  idempotency_key_in_use: {
    status: 409,
    title: "Request with this idempotency key still running",
    retryable: true,
  },
  idempotent_answer_not_kept: {
    status: 409,
    title: "Answer for this idempotency key not stored",
    retryable: false,
  },
  precondition_failed: { status: 412, title: "Resource has changed", retryable: false },
  payload_too_large: { status: 413, title: "Request body too large", retryable: false },
  headers_too_large: { status: 431, title: "Request headers too large", retryable: false },
  request_timed_out: { status: 408, title: "Request timed out", retryable: true },
  idempotency_key_reused: {
    status: 422,
    title: "Idempotency key used for another request",
    retryable: false,
  },
  tuning_refused: { status: 422, title: "Setting out of bounds", retryable: false },
  partitions_decrease: { status: 422, title: "Partitions cannot be reduced", retryable: false },
  topic_config_refused: { status: 422, title: "Setting rejected by broker", retryable: false },
  region_unavailable: { status: 422, title: "Region not configured", retryable: false },
  policy_violated: { status: 422, title: "Policy checks failed", retryable: false },
  not_supported: { status: 422, title: "Not supported for this cluster", retryable: false },
  sso_provider_refused: {
    status: 422,
    title: "Identity provider cannot be used",
    retryable: false,
  },
  limit_exceeded: { status: 422, title: "Limit exceeded", retryable: false },
  rate_limited: { status: 429, title: "Too many requests", retryable: true },
  internal: { status: 500, title: "Internal error", retryable: true },
  provisioning_failed: {
    status: 500,
    title: "Provisioning failed",
    retryable: true,
  },
  benchmark_failed: { status: 500, title: "Benchmark failed", retryable: true },
  planning_failed: { status: 502, title: "Planning failed", retryable: true },
  planning_busy: { status: 503, title: "Too many plans at a time", retryable: true },
  planning_timed_out: { status: 504, title: "Planning timed out", retryable: true },
  broker_failed: { status: 502, title: "Broker request failed", retryable: true },
  /** Nobody knows whether the records were written. */
  produce_outcome_unknown: { status: 504, title: "Produce outcome unknown", retryable: false },
  broker_unavailable: { status: 503, title: "Broker not responding", retryable: true },
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof ERROR_KINDS;

interface DomainErrorDetails {
  /** What the caller can do about it, one sentence. */
  readonly remedy?: string;
  readonly fields?: readonly FieldError[];
  /** Whether the same request may succeed later, where that is not the same for all errors of the code. */
  readonly retryable?: boolean;
  /** Seconds after which a retry makes sense. */
  readonly retryAfterSeconds?: number;
  /** ID of the conflicting resource. */
  readonly existingId?: string;
  readonly cause?: unknown;
}

/** A failure with a stable code. Use cases throw it; transports only translate it. */
export class DomainError extends Error {
  readonly code: ErrorCode;
  readonly remedy: string | undefined;
  readonly fields: readonly FieldError[];
  readonly retryAfterSeconds: number | undefined;
  readonly existingId: string | undefined;
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, details: DomainErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "DomainError";
    this.code = code;
    this.remedy = details.remedy;
    this.fields = details.fields ?? [];
    this.retryAfterSeconds = details.retryAfterSeconds;
    this.existingId = details.existingId;
    this.retryable = details.retryable ?? ERROR_KINDS[code].retryable;
  }

  get status(): number {
    return ERROR_KINDS[this.code].status;
  }

  get title(): string {
    return ERROR_KINDS[this.code].title;
  }
}

/** Fields that a `detail` names one by one; all of them stand in `fields`. */
const NAMED_FIELDS_MAX = 5;

/** A request with invalid fields. Each message completes "<field> …". */
export function validationFailed(fields: readonly FieldError[], cause?: unknown): DomainError {
  const named = fields.slice(0, NAMED_FIELDS_MAX).map(({ pointer, message }) => {
    const field = pointer.slice(1).replaceAll("/", ".");
    return `${field} ${message.replace(/\.$/, "")}`.trim();
  });
  const rest = fields.length - named.length;
  const list = [...named, ...(rest > 0 ? [`and ${rest} more`] : [])].join("; ");
  const { size } = new Set(fields.map(({ pointer }) => pointer));
  const head = size > 1 ? `The request has ${size} invalid fields` : "Invalid request";
  return new DomainError("validation_failed", `${head}: ${list}.`, { fields, cause });
}

/**
 * A name is given once per environment. `name` is undefined where a deleted cluster comes back: that
 * request has no name, so only the other cluster can give way.
 */
export function clusterNameTaken(name: string | undefined, cause?: unknown): DomainError {
  if (name === undefined) {
    return new DomainError("cluster_name_taken", "A cluster with this name already exists here.", {
      remedy: "Rename or delete the other cluster first.",
      cause,
    });
  }
  return new DomainError("cluster_name_taken", `A cluster named "${name}" already exists here.`, {
    remedy: "Choose another name, or delete the other cluster first.",
    fields: [
      {
        pointer: "/name",
        code: "taken",
        message: "is used by another cluster of this environment",
      },
    ],
    cause,
  });
}

/**
 * The answer for an id that does not exist and, word for word, for an id of another tenant: whoever
 * guesses ids learns nothing.
 */
export function notFound(kind: string, id: string): DomainError {
  return new DomainError("not_found", `There is no ${kind} ${id}.`, {
    remedy: "Check the ID and the organization of your credentials.",
  });
}
