/** Who runs the machines of a cluster: this machine, or an account of Amazon Web Services. */
export const CLUSTER_PROVIDERS = ["local", "aws"] as const;
export type ClusterProvider = (typeof CLUSTER_PROVIDERS)[number];

interface RegionFacts {
  readonly title: string;
  readonly provider: ClusterProvider;
  /**
   * Zones that a cluster is spread over, in order: the first broker stands in the first. Named here,
   * not asked for, so that a plan needs no account. Each has every instance type of `aws-size.ts`;
   * zones that new accounts do not get are left out.
   */
  readonly zones: readonly string[];
}

const REGION_FACTS = {
  local: { title: "This machine", provider: "local", zones: [] },
  "us-east-1": aws("US East (N. Virginia)", "us-east-1", "abc"),
  "us-east-2": aws("US East (Ohio)", "us-east-2", "abc"),
  "us-west-2": aws("US West (Oregon)", "us-west-2", "abc"),
  "eu-west-1": aws("Europe (Ireland)", "eu-west-1", "abc"),
  "eu-central-1": aws("Europe (Frankfurt)", "eu-central-1", "abc"),
  "ap-southeast-1": aws("Asia Pacific (Singapore)", "ap-southeast-1", "abc"),
  "ap-northeast-1": aws("Asia Pacific (Tokyo)", "ap-northeast-1", "acd"),
} as const satisfies Record<string, RegionFacts>;

/** Regions a cluster can live in; `local` is this machine. */
export type Region = keyof typeof REGION_FACTS;
export type AwsRegion = Exclude<Region, "local">;
export const REGIONS = Object.keys(REGION_FACTS) as [Region, ...Region[]];
export const AWS_REGIONS = REGIONS.filter(isAwsRegion);

/** The region's title, provider and zones. */
export function regionFacts(region: Region): RegionFacts {
  return REGION_FACTS[region];
}

/** Who runs what stands in the region. */
export function providerOf(region: Region): ClusterProvider {
  return REGION_FACTS[region].provider;
}

export function isAwsRegion(region: Region): region is AwsRegion {
  return REGION_FACTS[region].provider === "aws";
}

function aws(title: string, region: string, letters: string) {
  const zones = [...letters].map((letter) => `${region}${letter}`);
  return { title, provider: "aws" as const, zones };
}
