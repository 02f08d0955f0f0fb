import type { Cluster as ClusterShape } from "@millrace/contract";
import type { AwsNetwork, AwsStorage, WalVolume } from "@millrace/domain";

type SpecShape = ClusterShape["spec"];

export function presentWal(wal: WalVolume): NonNullable<SpecShape["wal"]> {
  return {
    type: wal.type,
    size_gib: wal.sizeGib,
    iops: wal.iops,
    throughput_mibps: wal.throughputMibps ?? null,
  };
}

export function presentNetwork(network: AwsNetwork): NonNullable<SpecShape["network"]> {
  return {
    vpc_id: network.vpcId ?? null,
    subnet_ids: [...network.subnetIds],
    cidr: network.cidr,
    access: network.access,
    allowed_principals: [...network.allowedPrincipals],
    allowed_cidrs: [...network.allowedCidrs],
  };
}

export function presentStorage(storage: AwsStorage): NonNullable<SpecShape["storage"]> {
  return { kms_key_arn: storage.kmsKeyArn ?? null };
}
