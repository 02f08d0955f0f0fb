import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ClusterDriver, LinkCredentials, TerraformStates } from "@millrace/provisioner";
import {
  AwsDriver,
  type AwsDriverOptions,
  fileWrappingKey,
  kmsWrappingKey,
  replacedWrappingKeys,
  StateSeal,
} from "@millrace/provisioner/aws";
import type { Logger } from "pino";
import { boundedDriver } from "./bounded-driver.ts";
import type { AwsEnv } from "./env.ts";
import { TaskProtection } from "./task-protection.ts";

/** Concurrent Terraform runs in one worker. */
const TERRAFORM_RUNS_MAX = 2;

/** What the driver has of the worker. */
export interface AwsDriverParts {
  readonly states: TerraformStates;
  readonly linkCredentials: LinkCredentials;
  readonly logger: Pick<Logger, "warn">;
}

/** The driver for clusters on AWS. Throws `ProvisionError` if the settings are wrong. */
export async function awsDriver(
  env: AwsEnv,
  home: string,
  { logger, ...kept }: AwsDriverParts,
  changes: Partial<Pick<AwsDriverOptions, "graceMs">> & { without?: readonly string[] } = {},
): Promise<ClusterDriver> {
  const { terraform: program, gateways, ...others } = env;
  const { stateKeyArn, replacedStateKeyArns, taskAgentUri, databaseCa, ...account } = others;
  const { without, ...options } = changes;
  const key =
    stateKeyArn === undefined
      ? await fileWrappingKey(join(home, "keys", "state.key"))
      : kmsWrappingKey(stateKeyArn);
  const driver = new AwsDriver({
    home,
    program,
    account: {
      ...{ ...account, without },
      databaseAuthorities: databaseCa && (await readFile(databaseCa, "utf8")),
    },
    gateways,
    ...kept,
    seal: new StateSeal(key, [
      ...(await replacedWrappingKeys(join(home, "keys", "replaced"))),
      ...replacedStateKeyArns.map((arn) => kmsWrappingKey(arn)),
    ]),
    ...options,
  });
  const protection = new TaskProtection({ agentUri: taskAgentUri, logger });
  return boundedDriver(driver, TERRAFORM_RUNS_MAX, (work) => protection.during(work));
}
