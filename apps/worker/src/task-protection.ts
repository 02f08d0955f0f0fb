import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";

/** ECS ends the protection by itself then, unless it is renewed: the bound after a worker that was killed. */
export const PROTECTED_MINUTES = 30;
/** Leaves time for several renewals that fail. */
const RENEWAL_MS = 10 * 60_000;
/** Two hours in all: an apply takes minutes, and a deployment waits no longer. */
export const RENEWALS_MAX = 9;
/** The agent is in the task's own network. */
const AGENT_MS_MAX = 5_000;
/** ECS answers with an error while it is throttled or the agent is busy. */
export const ATTEMPTS_MAX = 3;
const RETRY_MS = 1_000;

export interface TaskProtectionOptions {
  /** `ECS_AGENT_URI`; undefined outside of ECS, where nothing is protected. */
  readonly agentUri: string | undefined;
  readonly logger: Pick<Logger, "warn">;
  /** Other times than usual, for tests. */
  readonly renewalMs?: number;
  readonly retryMs?: number;
}

/**
 * Keeps ECS from stopping this program's task while work is in progress that must not be cut off. A deployment waits
 * until the task is not protected; Fargate would otherwise kill Terraform 120 seconds after SIGTERM, in the middle of
 * calls that take longer. If the agent refuses several times, the work is done without protection: the next worker
 * continues it.
 *
 * The protection is renewed at most `RENEWALS_MAX` times while one work follows another without a gap.
 * Source: "Task scale-in protection endpoint", Amazon ECS Developer Guide.
 */
export class TaskProtection {
  readonly #options: TaskProtectionOptions;
  #running = 0;
  #renewals = 0;
  #renewal: NodeJS.Timeout | undefined;
  /** Requests are sent in order, so that the last one decides. */
  #sent: Promise<void> = Promise.resolve();

  constructor(options: TaskProtectionOptions) {
    this.#options = options;
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#running += 1;
    if (this.#running === 1) this.#begin();
    await this.#sent;
    try {
      return await work();
    } finally {
      this.#running -= 1;
      if (this.#running === 0) this.#end();
    }
  }

  #begin(): void {
    this.#set(true);
    if (this.#options.agentUri === undefined) return;
    this.#renewals = 0;
    this.#renewal = setInterval(() => this.#renew(), this.#options.renewalMs ?? RENEWAL_MS);
  }

  #renew(): void {
    if (this.#renewals < RENEWALS_MAX) {
      this.#renewals += 1;
      this.#set(true);
      return;
    }
    clearInterval(this.#renewal);
    const message = "the protection of this task ends, although work is in progress";
    this.#options.logger.warn({ renewals: this.#renewals }, message);
  }

  #end(): void {
    clearInterval(this.#renewal);
    this.#set(false);
  }

  #set(protectionEnabled: boolean): void {
    this.#sent = this.#sent.then(() => this.#request(protectionEnabled));
  }

  /** Never rejects. */
  async #request(protectionEnabled: boolean): Promise<void> {
    const { agentUri, logger, retryMs = RETRY_MS } = this.#options;
    if (agentUri === undefined) return;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await putProtection(agentUri, protectionEnabled);
      } catch (error) {
        if (attempt < ATTEMPTS_MAX) {
          await sleep(retryMs);
          continue;
        }
        const message = "ECS did not change the protection of this task";
        logger.warn({ err: error, protectionEnabled }, message);
        return;
      }
    }
  }
}

async function putProtection(agentUri: string, protectionEnabled: boolean): Promise<void> {
  const expiry = protectionEnabled ? { ExpiresInMinutes: PROTECTED_MINUTES } : {};
  const response = await fetch(`${agentUri}/task-protection/v1/state`, {
    method: "PUT",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ProtectionEnabled: protectionEnabled, ...expiry }),
    signal: AbortSignal.timeout(AGENT_MS_MAX),
  });
  const answer = await response.text();
  // Otherwise it has "failure" or "error".
  if (!answer.includes('"protection"')) throw new Error(`${response.status}: ${answer}`);
}
