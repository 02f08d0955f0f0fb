/** Maps the errors of AWS's clients to `ProvisionError`. */
import { ProvisionError, type ProvisionErrorCode } from "../cluster-driver.ts";
import { classOf } from "../terraform/diagnostics.ts";

/** The service, or the network on the way to it, does not answer now. */
const UNANSWERED =
  /^(TimeoutError|RequestTimeout\w*|ECONN\w+|EPIPE|E(HOST|NET)UNREACH|EAI_AGAIN|ENOTFOUND)$/;

/** Runs `work`. Turns AWS's errors into a `ProvisionError`; unclassified ones get the code `otherwise`. */
export async function askingAws<T>(
  otherwise: ProvisionErrorCode,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isOfAws(error) ? failureOf(error, otherwise) : error;
  }
}

/** The class of an AWS error or time-out; undefined if it is not known. */
export function classOfAws(error: unknown): ProvisionErrorCode | undefined {
  if (!(error instanceof Error)) return undefined;
  const { name, message } = error;
  const { code, $fault } = error as { code?: unknown; $fault?: unknown };
  if (UNANSWERED.test(name) || UNANSWERED.test(String(code))) return "throttled";
  const found = classOf([
    { severity: "error", summary: name, detail: message, address: undefined },
  ]);
  return found ?? ($fault === "server" ? "throttled" : undefined);
}

export function detailOfAws(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/** The SDK counts its attempts on each error. */
function isOfAws(error: unknown): error is Error {
  return error instanceof Error && !(error instanceof ProvisionError) && "$metadata" in error;
}

function failureOf(cause: Error, otherwise: ProvisionErrorCode): ProvisionError {
  const detail = detailOfAws(cause);
  const code = classOfAws(cause) ?? otherwise;
  const message =
    code === "throttled" ? "AWS does not answer in time" : `AWS refused: ${cause.name}`;
  return new ProvisionError(code, message, { cause, detail });
}
