/** The program of Wire.java, which speaks every version of Kafka's protocol: requests and responses as JSON. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Json } from "../../product.ts";

/** Longer than any answer that a scenario waits for. */
const ANSWER_MS_MAX = 6_000;
const MACHINE = ["-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

export interface WireRequest {
  to: string;
  connection: string;
  api: string;
  version: number;
  body: Json;
  /** Whether a connection that the broker has closed is opened again. */
  reconnects: boolean;
}

/** What came back: the response, or why there is none. */
export type WireReply =
  | { body: Json; left: number }
  | { error: "unsupported" | "closed" | "undecodable" | "invalid" | "silent"; message: string };

export class Wire {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting = new Map<number, (reply: WireReply) => void>();
  #last = 0;
  #complaint = "";

  constructor(jars: string) {
    const program = join(import.meta.dirname, "Wire.java");
    this.#child = spawn("java", [...MACHINE, "-cp", `${jars}/*`, program]);
    this.#child.stderr.on("data", (chunk) => {
      this.#complaint = (this.#complaint + chunk).slice(-4_000);
    });
    createInterface({ input: this.#child.stdout }).on("line", (line) => {
      const { id, ...reply } = JSON.parse(line);
      this.#waiting.get(id)?.(reply);
      this.#waiting.delete(id);
    });
    this.#child.once("close", () => {
      const reply = { error: "closed", message: `the program ended: ${this.#complaint}` } as const;
      for (const answer of this.#waiting.values()) answer(reply);
      this.#waiting.clear();
    });
  }

  send(request: WireRequest): Promise<WireReply> {
    if (this.#child.exitCode !== null) throw new Error(`the program ended: ${this.#complaint}`);
    this.#last += 1;
    const id = this.#last;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        // A broker that does not answer one request answers none after it.
        this.close(request.to, request.connection);
        resolve({ error: "silent", message: `no answer within ${ANSWER_MS_MAX} ms` });
      }, ANSWER_MS_MAX);
      this.#waiting.set(id, (reply) => {
        clearTimeout(timer);
        resolve(reply);
      });
      this.#child.stdin.write(`${JSON.stringify({ id, ...request })}\n`);
    });
  }

  /** Closes a connection, as a client does that goes away. */
  close(to: string, connection: string): void {
    this.#child.stdin.write(`${JSON.stringify({ close: `${to}/${connection}` })}\n`);
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "close");
    this.#child.stdin.end();
    await ended;
  }
}
