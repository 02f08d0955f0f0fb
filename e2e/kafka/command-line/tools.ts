/** The program of Tools.java, which runs Kafka's command-line tools in one JVM. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

const MACHINE = ["-Xmx384M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/** What a tool said, and its exit status: -1 where it did not end in time, -2 where it could not be run. */
export interface ToolResult {
  exit: number;
  out: string;
  err: string;
}

/** One of the commands of Tools.java. */
export type ToolCommand = Record<string, unknown>;

export class Tools {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  #complaint = "";

  constructor(jars: string) {
    const program = join(import.meta.dirname, "Tools.java");
    this.#child = spawn("java", [...MACHINE, "-cp", `${jars}/*`, program]);
    this.#child.stderr.on("data", (chunk) => {
      this.#complaint = (this.#complaint + chunk).slice(-4_000);
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** One command at a time. @throws Error where the program has ended. */
  async carryOut(command: ToolCommand): Promise<ToolResult> {
    this.#child.stdin.write(`${JSON.stringify(command)}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`the program ended: ${this.#complaint}`);
    return JSON.parse(value) as ToolResult;
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "close");
    this.#child.stdin.end();
    await ended;
  }
}
