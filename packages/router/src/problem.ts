import type { Problem } from "@millrace/contract";
import { DomainError, type FieldError, validationFailed } from "@millrace/domain";
import { TRPCError } from "@trpc/server";
import { ZodError } from "zod";
import { useValidationWords } from "./validation-words.ts";

useValidationWords();

/** Where people read what a code means. */
const TYPE_BASE = "https://millrace.dev/errors/";
/** Field errors of one answer; a broken request of thousands of fields gets the first ones. */
const FIELD_ERRORS_MAX = 50;

/** How tRPC says that it cannot make sense of a request. */
const UNREADABLE: ReadonlySet<TRPCError["code"]> = new Set([
  "BAD_REQUEST",
  "PARSE_ERROR",
  "UNSUPPORTED_MEDIA_TYPE",
]);

export interface ProblemContext {
  readonly requestId: string;
  /** Path of the request. */
  readonly instance: string;
}

/**
 * Every failure as RFC 9457 problem details. This is the one place that turns errors into answers;
 * what we did not foresee becomes `internal`, and its text stays in our log.
 */
export function toProblem(error: unknown, { requestId, instance }: ProblemContext): Problem {
  const known = toDomainError(error);
  return {
    type: `${TYPE_BASE}${known.code}`,
    title: known.title,
    status: known.status,
    detail: known.message,
    instance,
    code: known.code,
    request_id: requestId,
    retryable: known.retryable,
    ...(known.remedy !== undefined && { remedy: known.remedy }),
    ...(known.existingId !== undefined && { existing_id: known.existingId }),
    errors: known.fields.map((field) => ({ ...field })),
  };
}

/** The domain error that an error is, holds, or amounts to. */
export function toDomainError(error: unknown): DomainError {
  if (error instanceof DomainError) return error;
  if (error instanceof ZodError) return invalidInput(error);
  if (error instanceof TRPCError) {
    if (error.cause instanceof DomainError) return error.cause;
    if (error.code === "BAD_REQUEST" && error.cause instanceof ZodError) {
      return invalidInput(error.cause);
    }
    if (UNREADABLE.has(error.code)) {
      return new DomainError("validation_failed", "The request cannot be read.", { cause: error });
    }
    if (error.code === "NOT_FOUND" || error.code === "METHOD_NOT_SUPPORTED") {
      return new DomainError("not_found", "This procedure does not exist.", { cause: error });
    }
    if (error.code === "PAYLOAD_TOO_LARGE") {
      return new DomainError("payload_too_large", "The request is too large.", { cause: error });
    }
  }
  return new DomainError("internal", "Something went wrong on our side.", {
    remedy: "Try again. If it happens again, report the request ID to the operators.",
    cause: error,
  });
}

function invalidInput(error: ZodError): DomainError {
  const issues = error.issues.filter((issue) => !isLooser(issue, error.issues));
  return validationFailed(issues.flatMap(toFieldErrors).slice(0, FIELD_ERRORS_MAX), error);
}

type Issue = ZodError["issues"][number];

/** Whether a field breaks a tighter bound as well: a whole number has one of its type beside its own. */
function isLooser(issue: Issue, issues: readonly Issue[]): boolean {
  if (issue.code !== "too_big") return false;
  return issues.some(
    (other) =>
      other.code === "too_big" &&
      other.maximum < issue.maximum &&
      pointerOf(other.path) === pointerOf(issue.path),
  );
}

function toFieldErrors(issue: Issue): FieldError[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({
      pointer: pointerOf([...issue.path, key]),
      code: "unknown_field",
      message: "is not a field of this request",
    }));
  }
  return [{ pointer: pointerOf(issue.path), code: issue.code, message: issue.message }];
}

/** RFC 6901. */
function pointerOf(path: readonly PropertyKey[]): string {
  return path
    .map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`)
    .join("");
}
