/** Direct access of tests to a cluster on the emulator, without the driver. */
import {
  DescribeTagsCommand,
  DescribeVolumesCommand,
  EC2Client,
  ModifyVolumeCommand,
} from "@aws-sdk/client-ec2";
import { ListBucketsCommand, S3Client } from "@aws-sdk/client-s3";
import {
  GetSecretValueCommand,
  ListSecretsCommand,
  SecretsManagerClient,
} from "@aws-sdk/client-secrets-manager";
import { clusterPrefix } from "@millrace/infra";
import { leftOf } from "./aws-leftovers.ts";
import { clientOptions } from "./moto.ts";

/** Ids of the cluster's volumes and names of its buckets, which hold its data. */
export async function dataOf(endpoint: string, clusterId: string) {
  const ec2 = new EC2Client(clientOptions(endpoint));
  const s3 = new S3Client({ ...clientOptions(endpoint), forcePathStyle: true });
  const Filters = [{ Name: "tag:millrace:cluster", Values: [clusterId] }];
  const [{ Volumes }, { Buckets }] = await Promise.all([
    ec2.send(new DescribeVolumesCommand({ Filters })),
    s3.send(new ListBucketsCommand({})),
  ]);
  const wal = (Volumes ?? []).filter((volume) =>
    volume.Tags?.some((tag) => tag.Key === "millrace:address"),
  );
  return {
    volumes: wal.map((volume) => volume.VolumeId ?? ""),
    throughputs: wal.map((volume) => volume.Throughput),
    buckets: (Buckets ?? []).flatMap(({ Name }) =>
      Name?.startsWith(clusterPrefix(clusterId)) ? [Name] : [],
    ),
  };
}

/** Changes as in the AWS console. */
export async function changeThroughput(endpoint: string, VolumeId: string, Throughput: number) {
  const ec2 = new EC2Client(clientOptions(endpoint));
  await ec2.send(new ModifyVolumeCommand({ VolumeId, Throughput }));
}

/** Addresses in the stack with more than one resource. */
export async function madeTwice(endpoint: string, clusterId: string): Promise<string[]> {
  const ec2 = new EC2Client(clientOptions(endpoint));
  const Filters = [{ Name: "key", Values: ["millrace:address"] }];
  const [{ Tags }, there] = await Promise.all([
    ec2.send(new DescribeTagsCommand({ Filters })),
    leftOf(endpoint, clusterId),
  ]);
  // The emulator's tags outlive what they were put on, and an instance has its slot's address.
  const addresses = (Tags ?? [])
    .filter((tag) => there.includes(tag.ResourceId ?? "") && tag.ResourceType !== "instance")
    .map((tag) => tag.Value ?? "");
  return addresses.filter((address, index) => addresses.indexOf(address) !== index);
}

/** Values of the cluster's secrets, which must not appear anywhere else. */
export async function secretsOf(endpoint: string, clusterId: string): Promise<string[]> {
  const secrets = new SecretsManagerClient(clientOptions(endpoint));
  const { SecretList } = await secrets.send(new ListSecretsCommand({}));
  const ours = (SecretList ?? []).filter(({ Name }) => Name?.startsWith(clusterPrefix(clusterId)));
  const values = ours.map(async ({ ARN }) => {
    const { SecretString } = await secrets.send(new GetSecretValueCommand({ SecretId: ARN }));
    return SecretString ?? "";
  });
  return (await Promise.all(values)).filter((value) => value !== "");
}
