/** An S3 server that fails on purpose: dataplane's program `faulty-s3`. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const program =
  process.env.MILLRACE_FAULTY_S3_BIN ??
  join(import.meta.dirname, "../../dataplane/target/release/faulty-s3");
/** It may have to build its server first. */
const START_MS_MAX = 300_000;

export class FaultyS3 {
  readonly #child: ChildProcess;
  /** What it says at its end: requests by kind and outcome. */
  #counts = "";
  /** The value of `s3.data.buckets`. */
  readonly bucket: string;

  private constructor(child: ChildProcess, bucket: string) {
    this.#child = child;
    this.bucket = bucket;
  }

  /** @throws Error where it does not start. */
  static async start(folder: string, seed: string): Promise<FaultyS3> {
    if (!existsSync(program)) {
      throw new Error(
        `${program} does not exist: run cargo build --release -p millrace-bench in dataplane`,
      );
    }
    const child = spawn(program, ["--folder", folder, "--seed", seed], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines = createInterface({ input: child.stdout });
    const signal = AbortSignal.timeout(START_MS_MAX);
    const ended = once(child, "exit", { signal }).then(() => {
      throw new Error("faulty-s3 ended before it served");
    });
    const [bucket] = await Promise.race([once(lines, "line", { signal }), ended]);
    const server = new FaultyS3(child, bucket as string);
    lines.on("line", (line) => {
      server.#counts = line;
    });
    return server;
  }

  /** Gives requests by kind and outcome, as JSON. */
  async stop(): Promise<string> {
    const closed = once(this.#child, "close");
    this.#child.stdin?.end();
    await closed;
    return this.#counts;
  }
}
