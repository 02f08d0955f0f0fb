import type { NetworkInput, WalInput } from "@millrace/contract";
import type { NetworkWish, WalWish } from "@millrace/core";

export function walWish(input: WalInput): WalWish {
  return {
    type: input.type,
    sizeGib: input.size_gib,
    iops: input.iops,
    throughputMibps: input.throughput_mibps,
  };
}

export function networkWish(input: NetworkInput): NetworkWish {
  return {
    vpcId: input.vpc_id,
    subnetIds: input.subnet_ids,
    cidr: input.cidr,
    access: input.access,
    allowedPrincipals: input.allowed_principals,
    allowedCidrs: input.allowed_cidrs,
  };
}
