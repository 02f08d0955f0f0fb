/** Reads a cluster file, in the fields of the REST API, into the input of a plan. */
import { readFileSync } from "node:fs";
import {
  type AwsRegion,
  type AwsSpec,
  awsSizing,
  baselinesOf,
  CLUSTER_SIZE_NAMES,
  type ClusterSize,
  defaultAwsSpec,
  isAwsRegion,
  NETWORK_ACCESS,
  REGIONS,
  regionFacts,
  sizingOf,
  WAL_VOLUME_TYPES,
} from "@millrace/domain";
import type { ClusterDeployment } from "../src/index.ts";

/** The example: three slots over three zones. */
export const EXAMPLE: unknown = {
  name: "orders",
  region: "eu-central-1",
  size: "small",
  brokers: 3,
  labels: { team: "orders" },
  wal: { type: "gp3", size_gib: 20, iops: 3000, throughput_mibps: 250 },
  network: { cidr: "10.40.0.0/16", access: "private" },
};

/** The file cannot be planned; the message says where and why. */
export class InvalidClusterFile extends Error {
  override readonly name = "InvalidClusterFile";
}

export type AwsDeploymentFile = ClusterDeployment & {
  readonly region: AwsRegion;
  readonly aws: NonNullable<ClusterDeployment["aws"]>;
};

export function readClusterFile(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new InvalidClusterFile(`${path}: ${(error as Error).message}`);
  }
}

/** Fields of one JSON object; unknown ones are rejected. */
class Fields {
  readonly #path: string;
  readonly #fields: Map<string, unknown>;

  constructor(value: unknown, path: string) {
    if (value !== undefined && (typeof value !== "object" || value === null))
      throw new InvalidClusterFile(`${path || "/"} must be an object`);
    this.#path = path;
    this.#fields = new Map(Object.entries(value ?? {}));
  }

  take<T>(name: string, expected: string, is: (value: unknown) => boolean, fallback: T): T {
    const value = this.#fields.get(name);
    this.#fields.delete(name);
    if (value === undefined || value === null) return fallback;
    if (is(value)) return value as T;
    throw new InvalidClusterFile(`${this.#path}/${name} must be ${expected}`);
  }

  text(name: string, fallback: string): string {
    return this.take(name, "a text", (value) => typeof value === "string", fallback);
  }

  whole<T extends number | undefined>(name: string, fallback: T): number | T {
    return this.take(name, "a whole number", Number.isInteger, fallback);
  }

  oneOf<T extends string>(name: string, all: readonly T[], fallback: T): T {
    const is = (value: unknown) => all.includes(value as T);
    return this.take(name, `one of ${all.join(", ")}`, is, fallback);
  }

  texts(name: string): readonly string[] {
    const is = (value: unknown) =>
      Array.isArray(value) && value.every((v) => typeof v === "string");
    return this.take<readonly string[]>(name, "a list of texts", is, []);
  }

  /** Throws where a field was not asked for: a typing error must not plan something else. */
  end(): void {
    const [first] = this.#fields.keys();
    if (first === undefined) return;
    throw new InvalidClusterFile(`${this.#path}/${first} is unknown`);
  }
}

/** Throws {@link InvalidClusterFile}; limits of volume and network are checked by the plan. */
export function deploymentOf(file: unknown): AwsDeploymentFile {
  const fields = new Fields(file, "");
  const region = fields.oneOf("region", REGIONS, "eu-central-1");
  if (!isAwsRegion(region))
    throw new InvalidClusterFile("/region is this machine: there is nothing to plan on AWS");
  const size = fields.oneOf<ClusterSize>("size", CLUSTER_SIZE_NAMES, "small");
  const name = fields.text("name", "example");
  const brokers = fields.whole("brokers", 1);
  const zones = fields.texts("zones");
  const labels = fields.take<Record<string, string>>("labels", "an object", isTexts, {});
  const paused = fields.take("paused", "true or false", isBoolean, false);
  const aws = awsSpecOf(fields, size);
  fields.end();
  const baselines = baselinesOf(aws.wal, awsSizing(size).instance);
  const sizing = sizingOf(size);
  return {
    ...{ clusterId: "clu_EXAMPLE", organizationId: "org_EXAMPLE", environmentId: "env_EXAMPLE" },
    ...{ name, region, size, brokers, paused, labels },
    aws: { ...aws, zones: zones.length > 0 ? zones : regionFacts(region).zones },
    placement: { host: "none", kafkaPort: 9092 },
    walCapacityBytes: baselines.walCapacityBytes,
    plaintextListener: true,
    properties: {
      "s3.wal.cache.size": String(sizing.walCacheBytes),
      "s3.wal.upload.threshold": String(sizing.uploadThresholdBytes),
      "s3.block.cache.size": String(sizing.blockCacheBytes),
    },
  };
}

function isBoolean(value: unknown): boolean {
  return typeof value === "boolean";
}

function isTexts(value: unknown): boolean {
  return (
    typeof value === "object" && Object.values(value ?? {}).every((v) => typeof v === "string")
  );
}

function awsSpecOf(fields: Fields, size: ClusterSize): AwsSpec {
  const plain = defaultAwsSpec(size);
  const take = (name: string) => {
    const value = fields.take<unknown>(name, "an object", (v) => typeof v === "object", undefined);
    return new Fields(value, `/${name}`);
  };
  const [wal, network, storage] = [take("wal"), take("network"), take("storage")];
  const type = wal.oneOf("type", WAL_VOLUME_TYPES, plain.wal.type);
  const throughput = type === "io2" ? undefined : plain.wal.throughputMibps;
  const optional = (all: Fields, name: string) => all.text(name, "") || undefined;
  const spec: AwsSpec = {
    wal: {
      type,
      sizeGib: wal.whole("size_gib", plain.wal.sizeGib),
      iops: wal.whole("iops", plain.wal.iops),
      throughputMibps: wal.whole("throughput_mibps", throughput),
    },
    network: {
      vpcId: optional(network, "vpc_id"),
      subnetIds: network.texts("subnet_ids"),
      cidr: network.text("cidr", plain.network.cidr),
      access: network.oneOf("access", NETWORK_ACCESS, plain.network.access),
      allowedPrincipals: network.texts("allowed_principals"),
      allowedCidrs: network.texts("allowed_cidrs"),
    },
    storage: { kmsKeyArn: optional(storage, "kms_key_arn") },
  };
  for (const part of [wal, network, storage]) part.end();
  return spec;
}
