/** The step about a new cluster's first user. */
import { randomBytes } from "node:crypto";
import { BrokerError } from "@millrace/broker-admin";
import { INITIAL_CLUSTER_USER, SCRAM_MECHANISMS, type StepName } from "@millrace/domain";
import type { Step, StepContext } from "../workflow.ts";
import { deployment } from "./deployment.ts";

/** 256 bits. */
const PASSWORD_BYTES = 32;

/**
 * The password is thrown away: an operation keeps no secret, and whoever waits for it may not be who asked for
 * it. A tenant gets one by rotating it, which shows it once.
 */
const createUser: Step = {
  async check(context) {
    try {
      await (await usersOf(context)).describeUser(INITIAL_CLUSTER_USER);
      return true;
    } catch (error) {
      if (error instanceof BrokerError && error.code === "user_not_found") return false;
      throw error;
    }
  },
  async do(context) {
    const password = randomBytes(PASSWORD_BYTES).toString("base64url");
    await (await usersOf(context)).putPassword(INITIAL_CLUSTER_USER, password, SCRAM_MECHANISMS);
    return undefined;
  },
};

async function usersOf(context: StepContext): Promise<ReturnType<StepContext["tools"]["users"]>> {
  return context.tools.users(await context.driver.access(deployment(context)));
}

export const USER_STEPS = { create_user: createUser } satisfies Partial<Record<StepName, Step>>;
