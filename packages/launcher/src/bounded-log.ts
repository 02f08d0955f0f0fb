/** A log file that a running program cannot grow beyond its bound. */
import { closeSync, fstatSync, openSync, renameSync, writeSync } from "node:fs";
import { Writable } from "node:stream";

/** A log that has grown to this is moved to `<file>.1`, so two files of it bound the space. */
export const LOG_BYTES_MAX = 32 * 1024 * 1024;

/** Appends to `file`, readable by its owner alone, and truncates it at the bound. */
export class BoundedLog extends Writable {
  readonly #file: string;
  readonly #bytesMax: number;
  #descriptor: number;
  #bytes: number;

  constructor(file: string, bytesMax: number = LOG_BYTES_MAX) {
    super();
    this.#file = file;
    this.#bytesMax = bytesMax;
    this.#descriptor = openSync(file, "a", 0o600);
    this.#bytes = fstatSync(this.#descriptor).size;
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    try {
      if (this.#bytes > 0 && this.#bytes + chunk.length > this.#bytesMax) this.#beginAnew();
      writeSync(this.#descriptor, chunk);
      this.#bytes += chunk.length;
    } catch {
      // A full disk costs lines of the log, not the program that writes them.
    }
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    closeSync(this.#descriptor);
    done(error);
  }

  #beginAnew(): void {
    renameSync(this.#file, `${this.#file}.1`);
    const next = openSync(this.#file, "a", 0o600);
    closeSync(this.#descriptor);
    this.#descriptor = next;
    this.#bytes = 0;
  }
}
