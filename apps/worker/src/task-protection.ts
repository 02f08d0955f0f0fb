import type { Logger } from "pino";

/** ECS ends the protection by itself then: an apply takes minutes, and a deployment waits no longer. */
export const PROTECTED_MINUTES_MAX = 60;
/** The agent is in the task's own network. */
const AGENT_MS_MAX = 5_000;

export interface TaskProtectionOptions {
  /** `ECS_AGENT_URI`; undefined outside of ECS, where nothing is protected. */
  readonly agentUri: string | undefined;
  readonly logger: Pick<Logger, "warn">;
}

/**
 * Keeps ECS from stopping this program's task while work is in progress that must not be cut off. A deployment waits
 * until the task is not protected; Fargate would otherwise kill Terraform 120 seconds after SIGTERM, in the middle of
 * calls that take longer. If the agent refuses, the work is done without protection: the next worker continues it.
 *
 * The protection is not renewed while one work follows another without a gap, so a deployment waits at most
 * `PROTECTED_MINUTES_MAX`. Source: "Task scale-in protection endpoint", Amazon ECS Developer Guide.
 */
export class TaskProtection {
  readonly #options: TaskProtectionOptions;
  #running = 0;
  /** Requests are sent in order, so that the last one decides. */
  #sent: Promise<void> = Promise.resolve();

  constructor(options: TaskProtectionOptions) {
    this.#options = options;
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#running += 1;
    if (this.#running === 1) this.#set(true);
    await this.#sent;
    try {
      return await work();
    } finally {
      this.#running -= 1;
      if (this.#running === 0) this.#set(false);
    }
  }

  #set(protectionEnabled: boolean): void {
    this.#sent = this.#sent.then(() => this.#ask(protectionEnabled));
  }

  /** Never rejects. */
  async #ask(protectionEnabled: boolean): Promise<void> {
    const { agentUri, logger } = this.#options;
    if (agentUri === undefined) return;
    const expiry = protectionEnabled ? { ExpiresInMinutes: PROTECTED_MINUTES_MAX } : {};
    try {
      const response = await fetch(`${agentUri}/task-protection/v1/state`, {
        method: "PUT",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ ProtectionEnabled: protectionEnabled, ...expiry }),
        signal: AbortSignal.timeout(AGENT_MS_MAX),
      });
      const answer = await response.text();
      // Otherwise it has "failure" or "error".
      if (!answer.includes('"protection"')) throw new Error(`${response.status}: ${answer}`);
    } catch (error) {
      const message = "ECS did not change the protection of this task";
      logger.warn({ err: error, protectionEnabled }, message);
    }
  }
}
