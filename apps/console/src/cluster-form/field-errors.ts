/** What is wrong with which field of a request, by the field's JSON pointer (RFC 6901). */
import type { Problem } from "@millrace/contract";

export type FieldErrors = Readonly<Record<string, string>>;

/** Where the API saw something wrong; several remarks on one field become one text. */
export function fieldErrorsOf(problem: Problem | undefined): FieldErrors {
  const errors: Record<string, string> = {};
  for (const { pointer, message } of problem?.errors ?? []) {
    errors[pointer] = errors[pointer] === undefined ? message : `${errors[pointer]} ${message}`;
  }
  return errors;
}
