/** What the exchange test asks of every stock client. */
import { spawn } from "node:child_process";

export const CODECS = ["none", "gzip", "snappy", "lz4", "zstd"] as const;
export type Codec = (typeof CODECS)[number];

/** One record as a client hands it out. */
export interface Seen {
  partition: number;
  value: string;
}

/** A stock Kafka client, driven as its users drive it. */
export interface Client {
  name: string;
  /** Writes the lines of a file, one record each, in order, every one acknowledged by all. */
  produce(bootstrap: string, topic: string, file: string, codec: Codec): Promise<void>;
  /** Reads `count` records from the beginning, handing them out in the order of arrival. */
  consume(
    bootstrap: string,
    topic: string,
    count: number,
    onSeen: (seen: Seen) => void,
  ): Promise<void>;
}

const CLIENT_SECONDS_MAX = 180;

export interface RunOptions {
  /** What the program reads from its standard input. */
  input?: NodeJS.ReadableStream;
  onLine?: (line: string) => void;
  /** Ends the program; that end is no failure. */
  signal?: AbortSignal;
  env?: NodeJS.ProcessEnv;
  /** After which the program is killed. */
  secondsMax?: number;
}

/** Runs a program to its end, line by line. @throws Error with its complaint where it fails. */
export function runLines(command: string, args: string[], options: RunOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const { env = process.env, secondsMax = CLIENT_SECONDS_MAX } = options;
    const child = spawn(command, args, { env, stdio: ["pipe", "pipe", "pipe"] });
    let rest = "";
    let complaint = "";
    const timer = setTimeout(() => child.kill("SIGKILL"), secondsMax * 1_000);
    options.signal?.addEventListener("abort", () => child.kill("SIGTERM"));
    child.stdout.setEncoding("latin1").on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) options.onLine?.(line);
    });
    child.stderr.on("data", (chunk) => {
      complaint = (complaint + chunk).slice(-4_000);
    });
    child.once("error", reject);
    child.once("close", (code) => {
      clearTimeout(timer);
      if (rest !== "") options.onLine?.(rest);
      if (code === 0 || options.signal?.aborted) resolve();
      else reject(new Error(`${command} ended with ${code}: ${complaint}`));
    });
    // A program that ends early closes its input; how it ended says why.
    child.stdin.on("error", () => {});
    if (options.input) options.input.pipe(child.stdin);
    else child.stdin.end();
  });
}
