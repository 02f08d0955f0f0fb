/** The process of a broker, which a test starts, kills and stops. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const program =
  process.env.MILLRACE_BROKER_BIN ??
  join(import.meta.dirname, "../../dataplane/target/release/millrace");
const READY_SECONDS_MAX = 60;
const STOP_SECONDS_MAX = 30;
/** Of its output, the last characters are kept. */
const LOG_MAX = 8_000;

export class BrokerProcess {
  #child: ChildProcess | undefined;
  #log = "";

  /** Starts Millrace, and waits until it is ready. */
  async startMillrace(properties: string): Promise<void> {
    const isReady = async () => this.#log.includes("the broker is ready");
    await this.start(program, ["broker", "--config", properties], isReady);
  }

  /** @throws Error where it ends, or takes too long, before it is ready. */
  async start(command: string, args: string[], isReady: () => Promise<boolean>): Promise<void> {
    this.#log = "";
    const child = spawn(command, args);
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        this.#log = (this.#log + chunk).slice(-LOG_MAX);
      });
    }
    await once(child, "spawn");
    for (let tenths = 0; tenths < READY_SECONDS_MAX * 10; tenths++) {
      if (await isReady()) return;
      if (child.exitCode !== null) break;
      await sleep(100);
    }
    throw new Error(`the broker does not serve: ${this.#log}`);
  }

  /** As a crash does: nothing is written any more. */
  async kill(): Promise<void> {
    await this.end("SIGKILL");
  }

  /** @throws Error where it does not stop by itself, or ended before. */
  async stop(): Promise<void> {
    const code = await this.end("SIGTERM");
    if (code !== 0) throw new Error(`the broker ended with ${code}: ${this.#log}`);
  }

  /** Gives the exit code; null where a signal ended it. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
      return child?.exitCode ?? null;
    }
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_SECONDS_MAX * 1_000);
    const ended = once(child, "close");
    child.kill(signal);
    await ended;
    clearTimeout(timer);
    return child.exitCode;
  }
}
