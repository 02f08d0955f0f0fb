/** What is wrong with which field of a request, by the field's JSON pointer (RFC 6901). */
import type { Problem } from "@millrace/contract";

export type FieldErrors = Readonly<Record<string, string>>;

/** Where the API saw something wrong; several errors of one field become one text. */
export function fieldErrorsOf(problem: Problem | undefined): FieldErrors {
  const errors: Record<string, string> = {};
  for (const { pointer, code, message } of problem?.errors ?? []) {
    // The detail of a taken name names it: `A cluster named "orders" already exists here.`
    const text = code === "taken" ? (problem?.detail ?? message) : sentence(message);
    errors[pointer] = errors[pointer] === undefined ? text : `${errors[pointer]}. ${text}`;
  }
  return errors;
}

/** The API completes "<field> …"; beside the field it starts a sentence. */
export function sentence(message: string): string {
  return message.replace(/^./, (first) => first.toUpperCase());
}

/** Brings the first refused field of the page into view, with the keyboard's focus on it. */
export function showFirstError(): void {
  const field = document.querySelector<HTMLElement>("[aria-invalid=true]");
  field?.focus({ preventScroll: true });
  field?.scrollIntoView({ block: "center" });
}
