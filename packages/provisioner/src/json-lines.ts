/** A plan's longest line, and a benchmark's report, have some hundred KiB. */
export const LINE_BYTES_MAX = 1024 * 1024;

/**
 * Splits a stream of bytes into lines and parses each as a JSON object. A line that is too long is skipped and
 * counted, so that memory stays bounded; a line that is not an object is returned as text.
 */
export class JsonLines {
  #held: Buffer[] = [];
  #heldBytes = 0;
  #skipping = false;
  #skipped = 0;

  /** Number of lines that were too long. */
  get skipped(): number {
    return this.#skipped;
  }

  /** The lines that `bytes` completes. */
  push(bytes: Buffer): (Record<string, unknown> | string)[] {
    const lines: (Record<string, unknown> | string)[] = [];
    let from = 0;
    for (let end = bytes.indexOf(0x0a); end >= 0; end = bytes.indexOf(0x0a, from)) {
      this.#hold(bytes.subarray(from, end));
      const line = this.#take();
      if (line !== undefined && line.trim() !== "") lines.push(parsed(line));
      from = end + 1;
    }
    this.#hold(bytes.subarray(from));
    return lines;
  }

  #hold(part: Buffer): void {
    if (this.#skipping || part.length === 0) return;
    if (this.#heldBytes + part.length > LINE_BYTES_MAX) {
      this.#skipping = true;
      this.#skipped += 1;
      this.#held = [];
      this.#heldBytes = 0;
      return;
    }
    // A copy, because the caller reuses the buffer.
    this.#held.push(Buffer.from(part));
    this.#heldBytes += part.length;
  }

  #take(): string | undefined {
    const line = this.#skipping ? undefined : Buffer.concat(this.#held).toString("utf8");
    this.#held = [];
    this.#heldBytes = 0;
    this.#skipping = false;
    return line;
  }
}

function parsed(line: string): Record<string, unknown> | string {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
  } catch {
    // Text: Terraform writes some final messages without the -json form.
  }
  return line;
}
