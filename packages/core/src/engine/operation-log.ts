import { type Fence, LeaseLost, type LogLine, type OperationJournal } from "@millrace/db";
import type { StepName } from "@millrace/domain";
import type { RunEvent } from "@millrace/provisioner";

/** Lines are written together: a transaction for each would be slower than Terraform. */
const FLUSH_INTERVAL_MS = 500;
/** Lines that wait to be written; where the database is slower than the run, the oldest go. */
const WAITING_MAX = 1_000;
/** "Still creating…" comes every ten seconds for each resource; one a minute tells as much. */
const PROGRESS_INTERVAL_MS = 60_000;
const MESSAGE_CHARACTERS_MAX = 4_000;

/** Takes an operation's log lines as they come and writes them in its own time. */
export class OperationLog {
  readonly #journal: Pick<OperationJournal, "log">;
  readonly #fence: Fence;
  readonly #onError: (error: unknown) => void;
  readonly #progressAt = new Map<string, number>();
  #waiting: LogLine[] = [];
  #dropped = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(
    journal: Pick<OperationJournal, "log">,
    fence: Fence,
    onError: (error: unknown) => void,
  ) {
    this.#journal = journal;
    this.#fence = fence;
    this.#onError = onError;
  }

  add(step: StepName, event: RunEvent): void {
    if (event.kind === "progress" && this.#isRecent(event)) return;
    this.#waiting.push({
      at: new Date(event.at),
      level: event.level,
      step,
      address: event.address,
      message: event.message.slice(0, MESSAGE_CHARACTERS_MAX),
    });
    if (this.#waiting.length > WAITING_MAX) {
      this.#waiting.shift();
      this.#dropped += 1;
    }
    this.#timer ??= setTimeout(() => void this.flush(), FLUSH_INTERVAL_MS);
  }

  /** Writes what waits. Never rejects: a log that cannot be written stops no operation. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#write());
    await this.#writing;
  }

  async #write(): Promise<void> {
    const lines = this.#waiting;
    const [first] = lines;
    if (!first) return;
    this.#waiting = [];
    if (this.#dropped > 0) {
      const message = `${this.#dropped} lines came faster than they could be kept`;
      lines.unshift({ at: first.at, level: "warning", step: first.step, message });
      this.#dropped = 0;
    }
    try {
      await this.#journal.log(this.#fence, lines);
    } catch (error) {
      // Whoever has the operation now writes its log.
      if (!(error instanceof LeaseLost)) this.#onError(error);
    }
  }

  #isRecent({ address = "", at }: RunEvent): boolean {
    const last = this.#progressAt.get(address);
    if (last !== undefined && at - last < PROGRESS_INTERVAL_MS) return true;
    this.#progressAt.set(address, at);
    return false;
  }
}
