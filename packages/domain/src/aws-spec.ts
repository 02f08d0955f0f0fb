import { type AwsNetwork, type AwsStorage, DEFAULT_AWS_NETWORK } from "./aws-network.ts";
import { awsSizing } from "./aws-size.ts";
import type { ClusterSize } from "./size.ts";
import type { WalVolume } from "./wal-volume.ts";

/** What a cluster's spec says about AWS alone; a cluster on this machine has none of it. */
export interface AwsSpec {
  /** The volume of each slot. */
  readonly wal: WalVolume;
  readonly network: AwsNetwork;
  readonly storage: AwsStorage;
}

/** The spec of a cluster that asks for nothing but its size. */
export function defaultAwsSpec(size: ClusterSize): AwsSpec {
  return {
    wal: awsSizing(size).wal,
    network: DEFAULT_AWS_NETWORK,
    storage: { kmsKeyArn: undefined },
  };
}
