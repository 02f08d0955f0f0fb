import { BrokerError } from "./broker-error.ts";

export interface ServerSentEvent {
  readonly id: string | undefined;
  readonly data: string;
}

/** Cuts a text into server-sent events (WHATWG HTML, 9.2.6), however it was cut into chunks. */
export class EventParser {
  readonly #charsMax: number;
  /** Chunks since the last line end; joined once, as one event may come in thousands of them. */
  #tail: string[] = [];
  #chars = 0;
  #id: string | undefined;
  #data: string[] = [];

  /** @param charsMax bound of one event. */
  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  /** The events that are complete with `chunk`. Throws `malformed_answer` beyond the bound. */
  push(chunk: string): ServerSentEvent[] {
    this.#chars += chunk.length;
    const end = chunk.lastIndexOf("\n");
    if (end < 0) {
      this.#tail.push(chunk);
      this.#checkBound();
      return [];
    }
    this.#tail.push(chunk.slice(0, end));
    const lines = this.#tail.join("").split("\n");
    this.#tail = [chunk.slice(end + 1)];
    const events = lines.flatMap((line) =>
      this.#line(line.endsWith("\r") ? line.slice(0, -1) : line),
    );
    if (events.length > 0) this.#chars = this.#tail[0]?.length ?? 0;
    this.#checkBound();
    return events;
  }

  #line(line: string): ServerSentEvent[] {
    if (line !== "") {
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
      if (field === "data") this.#data.push(value);
      if (field === "id") this.#id = value;
      return [];
    }
    if (this.#data.length === 0) return [];
    const event = { id: this.#id, data: this.#data.join("\n") };
    this.#data = [];
    return [event];
  }

  #checkBound(): void {
    if (this.#chars <= this.#charsMax) return;
    throw new BrokerError("malformed_answer", `an event of more than ${this.#charsMax} characters`);
  }
}
