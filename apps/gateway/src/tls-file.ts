import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { createSecureContext } from "node:tls";
import type { Logger } from "pino";
import { TLS_FILE_INTERVAL_MS, TLS_FILE_WAIT_MS_MAX } from "./bounds.ts";

const LOOK_MS = 200;

/** A file with a certificate, its chain and its key in PEM, which somebody else writes and replaces. */
export class TlsFile {
  readonly #path: string;
  readonly #logger: Logger;
  #pem = "";
  #timer: NodeJS.Timeout | undefined;
  #isBroken = false;

  constructor(path: string, logger: Logger) {
    this.#path = path;
    this.#logger = logger;
  }

  /** What it says, once it is there. @throws Error that says what to do where it does not appear. */
  async wait(signal: AbortSignal): Promise<string> {
    const until = performance.now() + TLS_FILE_WAIT_MS_MAX;
    let problem = "";
    for (;;) {
      try {
        this.#pem = await readPem(this.#path);
        return this.#pem;
      } catch (cause) {
        if (problem !== (cause as Error).message) {
          problem = (cause as Error).message;
          this.#logger.info({ file: this.#path, problem }, "waiting for the certificate");
        }
        if (performance.now() > until) {
          throw new Error(
            `MILLRACE_GATEWAY_TLS_FILE: ${this.#path} has no certificate and key in PEM after ${TLS_FILE_WAIT_MS_MAX / 1_000} s: ${problem}`,
            { cause },
          );
        }
      }
      await sleep(LOOK_MS, undefined, { signal });
    }
  }

  /** Calls `onChange` when it says something else. What cannot be used is logged once, and left out. */
  watch(onChange: (pem: string) => void): void {
    this.#timer = setTimeout(async () => {
      try {
        const pem = await readPem(this.#path);
        this.#isBroken = false;
        if (pem !== this.#pem) {
          this.#pem = pem;
          onChange(pem);
          this.#logger.info({ file: this.#path }, "the certificate was replaced");
        }
      } catch (error) {
        if (!this.#isBroken) this.#logger.error({ err: error }, "the new certificate is unusable");
        this.#isBroken = true;
      }
      if (this.#timer !== undefined) this.watch(onChange);
    }, TLS_FILE_INTERVAL_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** Throws where it is not there, half-written, or no certificate with its key. */
async function readPem(path: string): Promise<string> {
  const pem = await readFile(path, "utf8");
  createSecureContext({ cert: pem, key: pem });
  return pem;
}
