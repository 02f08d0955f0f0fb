import type { NetworkInput, WalInput } from "@millrace/contract";
import type { NetworkRequest, WalRequest } from "@millrace/core";

export function walRequest(input: WalInput): WalRequest {
  return {
    type: input.type,
    sizeGib: input.size_gib,
    iops: input.iops,
    throughputMibps: input.throughput_mibps,
  };
}

export function networkRequest(input: NetworkInput): NetworkRequest {
  return {
    vpcId: input.vpc_id,
    subnetIds: input.subnet_ids,
    cidr: input.cidr,
    access: input.access,
    allowedPrincipals: input.allowed_principals,
    allowedCidrs: input.allowed_cidrs,
  };
}
