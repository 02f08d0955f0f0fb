/** An operation's log as its events arrive, perhaps twice and perhaps after a gap. */
import type { OperationEvent } from "@millrace/contract";

/** The browser keeps as many lines; earlier ones can be read again from the API. */
export const LOG_LINES_MAX = 1_000;

/** The log with one more event, in order of `seq`; one that is known already changes nothing. */
export function withEvent(
  lines: readonly OperationEvent[],
  event: OperationEvent,
): readonly OperationEvent[] {
  const last = lines.at(-1);
  if (last === undefined || event.seq > last.seq) return bounded([...lines, event]);
  if (lines.some(({ seq }) => seq === event.seq)) return lines;
  return bounded([...lines, event].sort((a, b) => a.seq - b.seq));
}

function bounded(lines: readonly OperationEvent[]): readonly OperationEvent[] {
  return lines.length <= LOG_LINES_MAX ? lines : lines.slice(-LOG_LINES_MAX);
}

const STEP_WORDS: Partial<Record<OperationEvent["kind"], string>> = {
  "step.started": "started",
  "step.succeeded": "done",
  "step.skipped": "skipped",
  "step.failed": "failed",
};

/** What a line says: the step's name stands before what became of it, and why. */
export function lineText({ kind, step, message }: OperationEvent): string {
  const word = STEP_WORDS[kind];
  if (word === undefined) return message === "" ? kind.replace("operation.", "") : message;
  return message === "" ? `${step}: ${word}` : `${step}: ${word}, ${message}`;
}

/** The log as text, for a ticket: time, step, thing, message. */
export function logText(lines: readonly OperationEvent[]): string {
  return lines
    .map((event) =>
      [
        event.at,
        event.step ?? "-",
        event.address ?? "-",
        lineText(event).replaceAll("\n", " "),
      ].join("  "),
    )
    .join("\n");
}
