import {
  ALLOWED_CIDRS_MAX,
  ALLOWED_PRINCIPALS_MAX,
  NETWORK_ACCESS,
  WAL_VOLUME_TYPES,
  ZONES_MAX,
} from "@millrace/domain";
import { z } from "zod";

export const WalVolume = z
  .object({
    type: z.enum(WAL_VOLUME_TYPES),
    size_gib: z.int(),
    iops: z.int(),
    throughput_mibps: z
      .int()
      .nullable()
      .meta({ description: "null for io2, which derives it from its IOPS" }),
  })
  .meta({ id: "WalVolume" });

export const ClusterNetwork = z
  .object({
    vpc_id: z.string().nullable().meta({ description: "null: the cluster has its own VPC" }),
    subnet_ids: z.array(z.string()),
    cidr: z.string(),
    access: z.enum(NETWORK_ACCESS),
    allowed_principals: z.array(z.string()),
    allowed_cidrs: z.array(z.string()),
  })
  .meta({ id: "ClusterNetwork" });

export const ClusterStorage = z
  .object({
    kms_key_arn: z.string().nullable().meta({ description: "null: the cluster has its own key" }),
  })
  .meta({ id: "ClusterStorage" });

/** The use case checks the bounds: they depend on the type and the size. */
export const walInput = z
  .strictObject({
    type: z.enum(WAL_VOLUME_TYPES).optional(),
    size_gib: z.int().optional(),
    iops: z.int().optional(),
    throughput_mibps: z.int().nullable().optional(),
  })
  .meta({ id: "WalVolumeInput" });
export type WalInput = z.infer<typeof walInput>;

/** EC2 drops host bits, so a range with them would always differ from the spec. */
function isCanonical(cidr: string): boolean {
  const [address = "", prefix = ""] = cidr.split("/");
  const bits = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  return bits % 2 ** (32 - Number(prefix)) === 0;
}

const cidr = z
  .cidrv4({ error: "must be an IPv4 range like 10.40.0.0/16", abort: true })
  .refine(isCanonical, { error: "must start at the first address of the range" });

const principal = z
  .string()
  .max(200)
  .regex(
    /^arn:aws:iam::\d{12}:(root|user\/[\w+=,.@/-]+|role\/[\w+=,.@/-]+)$/,
    "must be an ARN like arn:aws:iam::111122223333:root",
  );

/** What can be changed in an existing network. */
const reach = {
  access: z.enum(NETWORK_ACCESS).optional(),
  allowed_principals: z.array(principal).max(ALLOWED_PRINCIPALS_MAX).optional(),
  allowed_cidrs: z.array(cidr).max(ALLOWED_CIDRS_MAX).optional(),
} as const;

export const networkInput = z
  .strictObject({
    vpc_id: z
      .string()
      .regex(/^vpc-[0-9a-f]{8,17}$/, "must be an ID like vpc-0123456789abcdef0")
      .nullable()
      .optional()
      .meta({
        description:
          "An existing VPC; null creates one. The VPC and each subnet must carry the tag millrace:tenant with the organization's ID, otherwise AWS rejects the apply",
      }),
    subnet_ids: z
      .array(
        z.string().regex(/^subnet-[0-9a-f]{8,17}$/, "must be an ID like subnet-0123456789abcdef0"),
      )
      .max(ZONES_MAX)
      .optional()
      .meta({ description: "With vpc_id: one private subnet per zone, in the order of the zones" }),
    cidr: cidr
      .refine((value) => /\/(1[6-9]|2[0-4])$/.test(value), {
        error: "must have a prefix length from 16 to 24",
      })
      .optional()
      .meta({
        description:
          "Address range of the cluster's own VPC; by default a /16 of 10.0.0.0/8 that no other cluster of the organization uses",
      }),
    ...reach,
  })
  .meta({ id: "ClusterNetworkInput" });
export type NetworkInput = z.infer<typeof networkInput>;

export const networkPatch = z.strictObject(reach).meta({ id: "ClusterNetworkPatch" });

export const storageInput = z
  .strictObject({
    kms_key_arn: z
      .string()
      .max(200)
      .regex(
        /^arn:aws:kms:[a-z0-9-]+:\d{12}:key\/[0-9a-f-]{36}$|^arn:aws:kms:[a-z0-9-]+:\d{12}:key\/mrk-[0-9a-f]{32}$/,
        "must be the ARN of a KMS key",
      )
      .nullable()
      .optional(),
  })
  .meta({ id: "ClusterStorageInput" });
