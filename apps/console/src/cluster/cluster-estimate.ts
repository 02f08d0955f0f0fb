/** What a cluster that exists costs: the domain's sum over what the API says about it. */
import type { Cluster } from "@millrace/contract";
import { type AwsSpec, type CostEstimate, estimateMonthly } from "@millrace/domain";
import { walVolumeFrom } from "../cluster-form/wal-draft.ts";

/** @param as the cluster in another state than it is in. */
export function estimateOfCluster(
  { spec, status }: Cluster,
  as: { paused?: boolean; retained?: boolean } = {},
): CostEstimate {
  return estimateMonthly({
    region: spec.region,
    size: spec.size,
    brokers: spec.brokers,
    zones: spec.zones,
    aws: awsSpecOf(spec),
    paused: as.paused ?? spec.paused,
    retained: as.retained ?? status.phase === "PENDING_PURGE",
  });
}

function awsSpecOf({ wal, network, storage }: Cluster["spec"]): AwsSpec | undefined {
  if (wal === null || network === null) return undefined;
  return {
    wal: walVolumeFrom(wal),
    network: {
      vpcId: network.vpc_id ?? undefined,
      subnetIds: network.subnet_ids,
      cidr: network.cidr,
      access: network.access,
      allowedPrincipals: network.allowed_principals,
      allowedCidrs: network.allowed_cidrs,
    },
    storage: { kmsKeyArn: storage?.kms_key_arn ?? undefined },
  };
}
