/** A live tail: the newest records of a stream that is read only while somebody looks at it. */
import type { KafkaRecord, RecordStreamItem } from "@millrace/contract";
import { ApiFailure, messageOf } from "../api/client.tsx";

/** Rows of a tail: more than anybody reads, and few enough to be drawn five times a second. */
export const TAIL_ROWS_MAX = 500;
/** Records that wait to be drawn. At this many the stream is not read further, down to the broker. */
const WAITING_MAX = 500;
/** Time between two drawings. */
const DRAW_MS = 200;

export type TailState = "connecting" | "live" | "paused" | "failed";

export interface Tail {
  readonly state: TailState;
  /** The newest first. */
  readonly records: readonly KafkaRecord[];
  /** All that came, also what has left the rows. */
  readonly received: number;
  /** Records that the broker looked at, matching or not. */
  readonly scanned: number;
  /** Why it failed, for people. */
  readonly problem: string | undefined;
}

/** Opens the stream; with a cursor, where an earlier one was left. */
export type OpenStream = (
  cursor: string | undefined,
  signal: AbortSignal,
) => AsyncIterable<RecordStreamItem>;

/**
 * Follows a stream. A pause closes it, so that the broker reads nothing, and `resume` continues at
 * the record after the last one received: nothing is lost or repeated.
 */
export class LiveTail {
  readonly #open: OpenStream;
  #cursor: string | undefined;
  #tail: Tail = { state: "connecting", records: [], received: 0, scanned: 0, problem: undefined };
  #waiting: KafkaRecord[] = [];
  /** Scanned by streams that are closed. */
  #scannedBefore = 0;
  #drawing: Promise<void> | undefined;
  #connection: AbortController | undefined;
  readonly #listeners = new Set<() => void>();

  /** @param cursor where to start; `open` decides where there is none. */
  constructor(open: OpenStream, cursor?: string) {
    this.#open = open;
    this.#cursor = cursor;
  }

  readonly snapshot = (): Tail => this.#tail;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Starts, or continues after a pause or a failure. */
  resume(): void {
    if (this.#connection !== undefined) return;
    const connection = new AbortController();
    this.#connection = connection;
    this.#change({ state: "connecting", problem: undefined });
    void this.#follow(connection);
  }

  pause(): void {
    this.#close();
    this.#change({ state: "paused" });
  }

  /** Closes the stream; what was received stays. */
  stop(): void {
    this.#close();
  }

  async #follow(connection: AbortController): Promise<void> {
    try {
      // The API ends each stream after some minutes.
      while (await this.#read(connection.signal)) this.#scannedBefore = this.#tail.scanned;
      if (!connection.signal.aborted) throw new ApiFailure("The connection was closed.");
    } catch (error) {
      if (connection.signal.aborted) return;
      this.#close();
      this.#change({ state: "failed", problem: messageOf(error) });
    }
  }

  /** Reads one stream to its end; whether another one can continue it. */
  async #read(signal: AbortSignal): Promise<boolean> {
    let came = false;
    for await (const item of this.#open(this.#cursor, signal)) {
      if (signal.aborted) return false;
      came = true;
      this.#take(item);
      if (this.#tail.state === "connecting") this.#change({ state: "live" });
      if (this.#waiting.length >= WAITING_MAX) await this.#drawing;
    }
    return came && !signal.aborted;
  }

  #take({ record, progress, cursor }: RecordStreamItem): void {
    this.#cursor = cursor ?? this.#cursor;
    if (record !== undefined) this.#waiting.push(record);
    if (progress !== undefined) {
      this.#change({ scanned: this.#scannedBefore + progress.scanned_records });
    }
    if (this.#waiting.length === 0 || this.#drawing !== undefined) return;
    this.#drawing = new Promise((resolve) => {
      setTimeout(() => {
        this.#draw();
        resolve();
      }, DRAW_MS);
    });
  }

  #draw(): void {
    this.#drawing = undefined;
    const came = this.#waiting;
    if (came.length === 0) return;
    this.#waiting = [];
    const records = [...came.toReversed(), ...this.#tail.records].slice(0, TAIL_ROWS_MAX);
    this.#change({ records, received: this.#tail.received + came.length });
  }

  #close(): void {
    this.#connection?.abort();
    this.#connection = undefined;
    this.#scannedBefore = this.#tail.scanned;
    // The cursor is behind what waits: it would not come again.
    this.#draw();
  }

  #change(change: Partial<Tail>): void {
    this.#tail = { ...this.#tail, ...change };
    for (const listener of this.#listeners) listener();
  }
}
