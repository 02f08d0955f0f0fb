import type { ControlPlaneSpec } from "./spec.ts";

/** The role that a tenant's account offers to the control plane, the same in every account. */
export const PROVISIONER_ROLE = "millrace/provisioner";

/** Below it brokers know the gateways, each cluster by a name of its own. */
export function linkDomain({ domainName }: Pick<ControlPlaneSpec, "domainName">): string {
  return `link.${domainName}`;
}

/**
 * Names of the installation's own parts. None begins as a cluster's parts do (`millrace-` and ten
 * characters), so the provisioner's policies never reach them by name; by tag neither, because
 * `millrace:managed-by` has another value on them.
 */
export interface ControlPlaneNames {
  readonly prefix: string;
  readonly clusterBoundary: string;
  readonly artefactBucket: string;
  readonly accessLogBucket: string;
  readonly logGroupPrefix: string;
  readonly logGroup: string;
  readonly flowLogGroup: string;
  readonly boundary: string;
  /** ARN of the boundary of clusters' roles, known before it is there. */
  readonly clusterBoundaryArn: string;
}

export function controlPlaneNames({
  installation,
  accountId,
  region,
}: Pick<ControlPlaneSpec, "installation" | "accountId" | "region">): ControlPlaneNames {
  // Load balancers and target groups take 32 characters; the longest ending has eight.
  const prefix = `mr-${installation}`;
  return {
    prefix,
    artefactBucket: `${prefix}-artefacts-${accountId}-${region}`,
    accessLogBucket: `${prefix}-access-log-${accountId}-${region}`,
    logGroupPrefix: `/millrace-control-plane/${installation}`,
    logGroup: `/millrace-control-plane/${installation}/tasks`,
    flowLogGroup: `/millrace-control-plane/${installation}/refused-traffic`,
    boundary: `${prefix}-control-plane-boundary`,
    clusterBoundary: `${prefix}-cluster-boundary`,
    clusterBoundaryArn: `arn:aws:iam::${accountId}:policy/millrace/${prefix}-cluster-boundary`,
  };
}
