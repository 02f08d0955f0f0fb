import type { AwsDatabaseClass } from "./aws-database.ts";
import type { AwsInstanceType } from "./aws-instance.ts";
import type { AwsRegion } from "./region.ts";

/**
 * The day that the table below is of. On-demand list prices, without taxes, discounts and free
 * tiers, entered from what we know of AWS's price lists: m7g.large in us-east-1 was compared with a
 * public page, the rest was compared with AWS's own list nowhere. AWS changes prices without notice
 * as well, so what is computed from them is an estimate: AWS's calculator decides.
 */
export const PRICES_AS_OF = "2026-06-17";

/** List prices of one region in USD. */
export interface RegionPrices {
  readonly instanceHour: Readonly<Record<AwsInstanceType, number>>;
  readonly gp3GibMonth: number;
  /** Above the 3000 that are included. */
  readonly gp3IopsMonth: number;
  /** Per MiB/s above the 125 that are included. */
  readonly gp3MibpsMonth: number;
  readonly io2GibMonth: number;
  /** Up to 32,000 of a volume. */
  readonly io2IopsMonth: number;
  /** From 32,001 on. */
  readonly io2IopsAboveMonth: number;
  readonly balancerHour: number;
  /** Per load balancer capacity unit and hour. */
  readonly balancerUnitHour: number;
  /** Per endpoint and zone. */
  readonly endpointHour: number;
  readonly s3GibMonth: number;
  readonly s3WritesThousand: number;
  readonly s3ReadsThousand: number;
  readonly logsGib: number;
}

const US: RegionPrices = {
  instanceHour: { "t4g.medium": 0.0336, "m7g.large": 0.0816, "r7g.xlarge": 0.2142 },
  gp3GibMonth: 0.08,
  gp3IopsMonth: 0.005,
  gp3MibpsMonth: 0.04,
  io2GibMonth: 0.125,
  io2IopsMonth: 0.065,
  io2IopsAboveMonth: 0.0455,
  balancerHour: 0.0225,
  balancerUnitHour: 0.006,
  endpointHour: 0.01,
  s3GibMonth: 0.023,
  s3WritesThousand: 0.005,
  s3ReadsThousand: 0.0004,
  logsGib: 0.5,
};

/** Prices per region. The three regions of the United States have the same. */
export const AWS_PRICES: Readonly<Record<AwsRegion, RegionPrices>> = {
  "us-east-1": US,
  "us-east-2": US,
  "us-west-2": US,
  "eu-west-1": {
    instanceHour: { "t4g.medium": 0.0368, "m7g.large": 0.0911, "r7g.xlarge": 0.2394 },
    gp3GibMonth: 0.088,
    gp3IopsMonth: 0.0055,
    gp3MibpsMonth: 0.044,
    io2GibMonth: 0.138,
    io2IopsMonth: 0.072,
    io2IopsAboveMonth: 0.0504,
    balancerHour: 0.0252,
    balancerUnitHour: 0.006,
    endpointHour: 0.011,
    s3GibMonth: 0.023,
    s3WritesThousand: 0.005,
    s3ReadsThousand: 0.0004,
    logsGib: 0.57,
  },
  "eu-central-1": {
    instanceHour: { "t4g.medium": 0.0384, "m7g.large": 0.0978, "r7g.xlarge": 0.2588 },
    gp3GibMonth: 0.0952,
    gp3IopsMonth: 0.006,
    gp3MibpsMonth: 0.0476,
    io2GibMonth: 0.149,
    io2IopsMonth: 0.078,
    io2IopsAboveMonth: 0.0546,
    balancerHour: 0.027,
    balancerUnitHour: 0.006,
    endpointHour: 0.012,
    s3GibMonth: 0.0245,
    s3WritesThousand: 0.0054,
    s3ReadsThousand: 0.00043,
    logsGib: 0.63,
  },
  "ap-southeast-1": {
    instanceHour: { "t4g.medium": 0.0424, "m7g.large": 0.102, "r7g.xlarge": 0.2588 },
    gp3GibMonth: 0.096,
    gp3IopsMonth: 0.006,
    gp3MibpsMonth: 0.048,
    io2GibMonth: 0.15,
    io2IopsMonth: 0.0756,
    io2IopsAboveMonth: 0.0529,
    balancerHour: 0.0252,
    balancerUnitHour: 0.006,
    endpointHour: 0.013,
    s3GibMonth: 0.025,
    s3WritesThousand: 0.005,
    s3ReadsThousand: 0.0004,
    logsGib: 0.7,
  },
  "ap-northeast-1": {
    instanceHour: { "t4g.medium": 0.0432, "m7g.large": 0.1054, "r7g.xlarge": 0.2588 },
    gp3GibMonth: 0.096,
    gp3IopsMonth: 0.006,
    gp3MibpsMonth: 0.048,
    io2GibMonth: 0.142,
    io2IopsMonth: 0.074,
    io2IopsAboveMonth: 0.0518,
    balancerHour: 0.0243,
    balancerUnitHour: 0.006,
    endpointHour: 0.014,
    s3GibMonth: 0.025,
    s3WritesThousand: 0.0047,
    s3ReadsThousand: 0.00037,
    logsGib: 0.76,
  },
};

/** The day that the prices of RDS below are of; as above, AWS's calculator decides. */
export const DATABASE_PRICES_AS_OF = "2026-11-28";

/**
 * RDS for PostgreSQL in two zones (Multi-AZ): list prices of us-east-1 in USD, which estimates take for every region. Elsewhere
 * it costs up to a third more.
 */
export const DATABASE_PRICES: {
  readonly hour: Readonly<Record<AwsDatabaseClass, number>>;
  readonly gp3GibMonth: number;
} = {
  hour: { "db.t4g.small": 0.065, "db.t4g.medium": 0.129, "db.m7g.large": 0.337 },
  gp3GibMonth: 0.23,
};
