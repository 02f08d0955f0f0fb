/**
 * Diagnostics of Terraform and the provider, classified for an operation: retry, wait, or report which field to
 * change.
 */
import type { ProvisionErrorCode } from "../cluster-driver.ts";
import { ProvisionError } from "../cluster-driver.ts";

export interface Diagnostic {
  readonly severity: "error" | "warning";
  readonly summary: string;
  readonly detail: string;
  /** The resource, where it is about one. */
  readonly address: string | undefined;
}

/**
 * Error codes of AWS's services and messages of Terraform, most specific first: a request limit is a throttle,
 * not a quota. Sources: the services' "common errors" pages, Terraform's source.
 */
const CLASSES: readonly (readonly [ProvisionErrorCode, RegExp])[] = [
  // The text speaks of a rate, but a retry within the hours that AWS names cannot succeed.
  ["too_soon", /\bVolumeModificationRateExceeded\b|maximum modification rate per volume/i],
  // An endpoint service with connections; rejecting them takes AWS a moment.
  ["busy", /\bExistingVpcEndpointConnections\b/],
  ["plan_stale", /saved plan (is stale|does not match)/i],
  ["busy", /error acquiring the state lock/i],
  [
    "throttled",
    /\b(Throttl(ing|ed)\w*|RequestLimitExceeded|TooManyRequests\w*|SlowDown|RequestThrottled\w*|PriorRequestNotComplete|BandwidthLimitExceeded)\b|rate exceeded/i,
  ],
  [
    "quota",
    /\b\w*(LimitExceeded|QuotaExceeded|LimitExceededException|QuotaExceededException)\b|\bTooMany(LoadBalancers|TargetGroups|Targets|Listeners|Buckets)\b|TooManyBuckets/,
  ],
  [
    "capacity",
    /\bInsufficient\w*Capacity\w*\b|\bUnfulfillableCapacity\b|not supported in your requested Availability Zone|\bInstanceCapacity\b/i,
  ],
  [
    "auth",
    /\b(AccessDenied\w*|UnauthorizedOperation|AuthFailure|ExpiredToken\w*|InvalidClientTokenId|SignatureDoesNotMatch|UnrecognizedClient\w*|OptInRequired)\b|not authorized to perform|no valid credential sources|cannot assume iam role/i,
  ],
  [
    "config",
    /\b(InvalidParameter\w*|ValidationError|ValidationException|Invalid\w+\.(Malformed|Range|NotFound)|MalformedPolicy\w*|InvalidSubnet\w*|InvalidVpc\w*|InvalidKMSKey\w*|UnsupportedOperation)\b|instance cannot be destroyed|unsupported (argument|block type)|invalid value for|inconsistent dependency lock file/i,
  ],
];

/** The class of a failure; the first classified error decides, undefined if there is none. */
export function classOf(diagnostics: readonly Diagnostic[]): ProvisionErrorCode | undefined {
  const errors = diagnostics.filter((each) => each.severity === "error");
  for (const [code, pattern] of CLASSES) {
    if (errors.some((each) => pattern.test(`${each.summary}\n${each.detail}`))) return code;
  }
  return undefined;
}

const TOO_SOON =
  "AWS takes one change of a volume in six hours: retry the operation six hours after the last one";

/** The error of a failed run; `otherwise` is the code of an unclassified failure. */
export function runFailure(
  what: string,
  diagnostics: readonly Diagnostic[],
  otherwise: ProvisionErrorCode,
): ProvisionError {
  const errors = diagnostics.filter((each) => each.severity === "error");
  const [first] = errors;
  const about = first?.address === undefined ? "" : ` ${first.address}:`;
  const code = classOf(errors) ?? otherwise;
  const hint = code === "too_soon" ? `. ${TOO_SOON}` : "";
  const message = first ? `${what} failed:${about} ${first.summary}${hint}` : `${what} failed`;
  return new ProvisionError(code, message, { detail: detailOf(errors) });
}

/** More errors of one run are not shown: they repeat each other. */
const ERRORS_SHOWN_MAX = 10;
const DETAIL_CHARACTERS_MAX = 8_000;

function detailOf(errors: readonly Diagnostic[]): string {
  const shown = errors.slice(0, ERRORS_SHOWN_MAX).map(({ address, summary, detail }) => {
    const head = address === undefined ? summary : `${address}: ${summary}`;
    return detail === "" ? head : `${head}\n${detail}`;
  });
  const more = errors.length - shown.length;
  const text = [...shown, ...(more > 0 ? [`… ${more} more errors`] : [])].join("\n\n");
  return text.slice(0, DETAIL_CHARACTERS_MAX);
}

/** The diagnostic in one of Terraform's messages, or in a list that `validate` prints. */
export function diagnosticOf(value: unknown): Diagnostic | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { severity, summary, detail, address } = value as Record<string, unknown>;
  if (typeof summary !== "string") return undefined;
  return {
    severity: severity === "warning" ? "warning" : "error",
    summary,
    detail: typeof detail === "string" ? detail : "",
    address: typeof address === "string" && address !== "" ? address : undefined,
  };
}
