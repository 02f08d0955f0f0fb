/** Turns the lines of `terraform -json` into events of an operation. */
import type { RunEvent } from "../change-plan.ts";
import { type Diagnostic, diagnosticOf } from "./diagnostics.ts";

/** Further events within a second are only counted; errors are always reported. */
export const EVENTS_PER_SECOND_MAX = 50;
/** "Still creating" comes every ten seconds for each resource; fewer are enough. */
const PROGRESS_INTERVAL_MS = 30_000;
const MESSAGE_CHARACTERS_MAX = 2_000;
/** Diagnostics kept; the first ones say what failed. */
const DIAGNOSTICS_MAX = 200;

export interface RunEventsOptions {
  readonly onEvent: (event: RunEvent) => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** Takes the messages of one run, emits its events and keeps its diagnostics. */
export class RunEvents {
  readonly #options: RunEventsOptions;
  readonly #diagnostics: Diagnostic[] = [];
  readonly #lastProgress = new Map<string, number>();
  #secondBegan = 0;
  #toldInSecond = 0;
  #untold = 0;

  constructor(options: RunEventsOptions) {
    this.#options = options;
  }

  get diagnostics(): readonly Diagnostic[] {
    return this.#diagnostics;
  }

  take(message: Record<string, unknown> | string): void {
    if (typeof message === "string") {
      this.#tell("info", "run", message);
      return;
    }
    const text = typeof message["@message"] === "string" ? message["@message"] : "";
    const address = addressIn(message.hook);
    switch (message.type) {
      case "diagnostic":
        this.#takeDiagnostic(message.diagnostic);
        break;
      case "apply_start":
        this.#tell("info", "start", text, address);
        break;
      case "apply_complete":
        this.#tell("info", "done", text, address);
        break;
      case "apply_errored":
        this.#tell("error", "done", text, address);
        break;
      case "apply_progress":
        this.#takeProgress(text, address);
        break;
      case "change_summary":
        this.#tell("info", "run", text);
        break;
      default:
      // Refreshes, planned changes and outputs: the plan itself shows them.
    }
  }

  /** A step of the run, reported by this program. */
  say(message: string, level: RunEvent["level"] = "info"): void {
    this.#tell(level, "run", message);
  }

  #takeDiagnostic(value: unknown): void {
    const diagnostic = diagnosticOf(value);
    if (diagnostic === undefined) return;
    if (this.#diagnostics.length < DIAGNOSTICS_MAX) this.#diagnostics.push(diagnostic);
    const { severity, summary, detail, address } = diagnostic;
    this.#tell(severity, "diagnostic", detail === "" ? summary : `${summary}: ${detail}`, address);
  }

  #takeProgress(text: string, address: string | undefined): void {
    const now = this.#options.now();
    const last = this.#lastProgress.get(address ?? "");
    if (last !== undefined && now - last < PROGRESS_INTERVAL_MS) return;
    this.#lastProgress.set(address ?? "", now);
    this.#tell("info", "progress", text, address);
  }

  #tell(
    level: RunEvent["level"],
    kind: RunEvent["kind"],
    text: string,
    address?: string | undefined,
  ): void {
    const at = this.#options.now();
    if (at - this.#secondBegan >= 1_000) {
      if (this.#untold > 0) this.#send(at, "info", "run", `${this.#untold} more events`);
      this.#secondBegan = at;
      this.#toldInSecond = 0;
      this.#untold = 0;
    }
    this.#toldInSecond += 1;
    if (this.#toldInSecond > EVENTS_PER_SECOND_MAX && level !== "error") {
      this.#untold += 1;
      return;
    }
    this.#send(at, level, kind, text, address);
  }

  #send(
    at: number,
    level: RunEvent["level"],
    kind: RunEvent["kind"],
    text: string,
    address?: string | undefined,
  ): void {
    const message = text.slice(0, MESSAGE_CHARACTERS_MAX);
    this.#options.onEvent({ at, level, kind, message, ...(address ? { address } : {}) });
  }
}

function addressIn(hook: unknown): string | undefined {
  if (typeof hook !== "object" || hook === null || !("resource" in hook)) return undefined;
  const { resource } = hook;
  if (typeof resource !== "object" || resource === null || !("addr" in resource)) return undefined;
  return typeof resource.addr === "string" ? resource.addr : undefined;
}
