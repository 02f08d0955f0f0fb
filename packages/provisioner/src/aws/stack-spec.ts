import {
  type ClusterStackMode,
  type ClusterStackSpec,
  checkClusterStackSpec,
  StackSpecError,
} from "@millrace/infra";
import type { PlanPurpose } from "../change-plan.ts";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";
import type { AwsAccount, AwsAccountSettings } from "./aws-account.ts";
import { databaseAuthority } from "./database-authority.ts";

/** The account's settings that a stack needs. */
export type StackAccount = Pick<
  AwsAccountSettings,
  "roleArn" | "artefact" | "amiId" | "permissionsBoundaryArn" | "controlLink" | "alarmTopicArns"
> & {
  readonly accountId: string;
  /** Of the region, in PEM; only several brokers need it. */
  readonly databaseAuthority?: string | undefined;
};

/** What the stack of a deployment needs of the account. Throws `ProvisionError` `unconfigured`. */
export function stackAccount(
  { settings, accountId }: Pick<AwsAccount, "settings" | "accountId">,
  { region, brokers }: Pick<ClusterDeployment, "region" | "brokers">,
): StackAccount {
  if (brokers === 1) return { ...settings, accountId };
  const authority = databaseAuthority(settings.databaseAuthorities, region);
  return { ...settings, accountId, databaseAuthority: authority };
}

/** The stack's mode for a plan of `purpose`. */
export function modeFor(purpose: PlanPurpose, { paused }: ClusterDeployment): ClusterStackMode {
  switch (purpose) {
    case "pause":
      return "paused";
    case "destroy":
      return "retained";
    case "purge":
      return "purge";
    default:
      return paused ? "paused" : "running";
  }
}

/**
 * The stack of a deployment. Throws `ProvisionError` `config` if it is not for AWS or is invalid; the message
 * names the field and the reason.
 */
export function stackSpec(
  deployment: ClusterDeployment,
  mode: ClusterStackMode,
  account: StackAccount,
): ClusterStackSpec {
  const { aws } = deployment;
  if (aws === undefined) {
    throw new ProvisionError("config", `cluster ${deployment.clusterId} has no spec for AWS`);
  }
  const { organizationId, environmentId, clusterId, name, labels, region, size } = deployment;
  const {
    roleArn,
    artefact,
    amiId,
    permissionsBoundaryArn,
    accountId,
    controlLink,
    alarmTopicArns,
  } = account;
  const spec: ClusterStackSpec = {
    ...{ wal: aws.wal, network: aws.network, storage: aws.storage, zones: aws.zones },
    ...{ mode, organizationId, environmentId, clusterId, name, labels, accountId, region, size },
    ...{ artefact, amiId, permissionsBoundaryArn, provisionerRoleArn: roleArn, controlLink },
    ...(alarmTopicArns === undefined ? {} : { alarmTopicArns }),
    slots: deployment.brokers,
    ...(deployment.brokers > 1 && { databaseAuthority: account.databaseAuthority }),
    properties: deployment.properties,
  };
  try {
    checkClusterStackSpec(spec);
  } catch (error) {
    if (!(error instanceof StackSpecError)) throw error;
    throw new ProvisionError("config", error.message, { cause: error });
  }
  return spec;
}
