import { METADATA_STORAGE_GIB } from "./aws-database.ts";
import { INTERFACE_ENDPOINT_SERVICES } from "./aws-network.ts";
import {
  AWS_PRICES,
  DATABASE_PRICES,
  DATABASE_PRICES_AS_OF,
  PRICES_AS_OF,
  type RegionPrices,
} from "./aws-prices.ts";
import { awsSizing } from "./aws-size.ts";
import { type AwsSpec, defaultAwsSpec } from "./aws-spec.ts";
import { isAwsRegion, type Region, regionFacts } from "./region.ts";
import { type ClusterSize, sizingOf } from "./size.ts";
import { type WalVolume, walVolumeLimits } from "./wal-volume.ts";

/** AWS's own month: a twelfth of a year. */
const HOURS_PER_MONTH = 730;
const GIB = 1024 ** 3;

/** What is paid for by use, in a month, for the whole cluster. */
interface MonthlyUse {
  readonly producedGib: number;
  /** Mean of what the bucket holds. */
  readonly storedGib: number;
  /** How often each produced byte is read back from the bucket rather than from a cache. */
  readonly readsFromBucket: number;
}

/** Use that an estimate assumes where none is stated. */
const ASSUMED_USE: Readonly<Record<ClusterSize, MonthlyUse>> = {
  dev: { producedGib: 50, storedGib: 20, readsFromBucket: 0.1 },
  small: { producedGib: 2500, storedGib: 600, readsFromBucket: 0.1 },
  medium: { producedGib: 20_000, storedGib: 5000, readsFromBucket: 0.1 },
};

export interface CostLine {
  readonly item: string;
  readonly quantity: number;
  readonly unit: string;
  /** USD per unit. */
  readonly unitPrice: number;
  /** USD, to the cent. */
  readonly monthly: number;
}

/** What a cluster costs at AWS in a month: an estimate from list prices and stated use. */
export interface CostEstimate {
  readonly currency: "USD";
  /** Day of the prices, `YYYY-MM-DD`. */
  readonly asOf: string;
  /** USD, the sum of the lines to the cent. */
  readonly total: number;
  readonly lines: readonly CostLine[];
  /** What the estimate takes for granted, one sentence each. */
  readonly assumptions: readonly string[];
}

export interface PricedCluster {
  readonly region: Region;
  readonly size: ClusterSize;
  /** Broker slots. */
  readonly brokers: number;
  /** Zones; undefined: all of the region's. */
  readonly zones: number | undefined;
  /** Undefined: the size's defaults. */
  readonly aws: AwsSpec | undefined;
  readonly paused: boolean;
  /** Whether only the data is left: deleted, and not purged yet. */
  readonly retained: boolean;
}

/** What the cluster costs in a month. On this machine it costs nothing. */
export function estimateMonthly(
  cluster: PricedCluster,
  use: MonthlyUse = ASSUMED_USE[cluster.size],
): CostEstimate {
  const { region } = cluster;
  if (!isAwsRegion(region)) {
    const assumptions = ["A cluster on this machine costs nothing at AWS."];
    return { currency: "USD", asOf: PRICES_AS_OF, total: 0, lines: [], assumptions };
  }
  const prices = AWS_PRICES[region];
  const aws = cluster.aws ?? defaultAwsSpec(cluster.size);
  const zones = cluster.zones ?? regionFacts(region).zones.length;
  const lines = [
    ...computeLines(cluster, prices),
    ...volumeLines(aws.wal, cluster.brokers, prices),
    ...databaseLines(cluster),
    ...networkLines(cluster, aws, zones, prices, use),
    ...storageLines(cluster, prices, use),
    ...observationLines(cluster, aws, prices),
  ].filter((line) => line.quantity > 0);
  const total = cents(lines.reduce((sum, line) => sum + line.monthly, 0));
  return {
    ...{ currency: "USD", asOf: PRICES_AS_OF, total, lines },
    assumptions: assumptions(cluster, use),
  };
}

function assumptions({ brokers }: PricedCluster, use: MonthlyUse): string[] {
  return [
    `On-demand list prices of ${PRICES_AS_OF}, without taxes, discounts and free tiers. Check with ` +
      "AWS's calculator before you rely on them.",
    `${gib(use.producedGib)} produced and ${gib(use.storedGib)} stored per month, and ` +
      `${use.readsFromBucket * 100}\u00a0% of what is produced read back from the bucket.`,
    ...(brokers === 1
      ? ["Clients in the brokers' zones: AWS charges for traffic between zones."]
      : [
          "Clients are spread over the zones as the brokers are, and each record is produced and consumed " +
            "once. AWS charges both zones for traffic between them.",
          `The metadata database at the list price of us-east-1 of ${DATABASE_PRICES_AS_OF}. AWS includes ` +
            "backups up to the size of its storage.",
        ]),
  ];
}

function gib(amount: number): string {
  return `${amount.toLocaleString("en")} GiB`;
}

/** The system's volume of each instance: what the image asks for. */
export const ROOT_VOLUME_GIB = 8;

function computeLines(cluster: PricedCluster, prices: RegionPrices): CostLine[] {
  if (cluster.paused || cluster.retained) return [];
  const { type } = awsSizing(cluster.size).instance;
  const hours = cluster.brokers * HOURS_PER_MONTH;
  const root = cluster.brokers * ROOT_VOLUME_GIB;
  return [
    line(`EC2 instance ${type}`, hours, "hour", prices.instanceHour[type]),
    line("EBS system volume", root, "GiB-month", prices.gp3GibMonth),
  ];
}

/** Up to this many IOPS of an io2 cost the first tier's price. */
const IO2_FIRST_TIER_IOPS = 32_000;

function volumeLines(wal: WalVolume, slots: number, prices: RegionPrices): CostLine[] {
  const limits = walVolumeLimits(wal.type);
  const iops = slots * Math.max(0, wal.iops - limits.includedIops);
  if (wal.type === "io2") {
    const first = slots * Math.min(wal.iops, IO2_FIRST_TIER_IOPS);
    const above = slots * Math.max(0, wal.iops - IO2_FIRST_TIER_IOPS);
    return [
      line("EBS WAL volume io2", slots * wal.sizeGib, "GiB-month", prices.io2GibMonth),
      line("EBS WAL volume IOPS", first, "IOPS-month", prices.io2IopsMonth),
      line("EBS WAL volume IOPS above 32,000", above, "IOPS-month", prices.io2IopsAboveMonth),
    ];
  }
  const throughput = wal.throughputMibps ?? limits.includedThroughputMibps;
  const mibps = slots * Math.max(0, throughput - limits.includedThroughputMibps);
  return [
    line("EBS WAL volume gp3", slots * wal.sizeGib, "GiB-month", prices.gp3GibMonth),
    line("EBS WAL volume IOPS above 3,000", iops, "IOPS-month", prices.gp3IopsMonth),
    line("EBS WAL volume throughput above 125 MiB/s", mibps, "MiB/s-month", prices.gp3MibpsMonth),
  ];
}

/** Of several brokers. It holds data, so it stays while a cluster is paused or deleted with its data kept. */
function databaseLines({ brokers, size }: PricedCluster): CostLine[] {
  if (brokers === 1) return [];
  const { metadata } = awsSizing(size);
  const price = DATABASE_PRICES.hour[metadata];
  return [
    line(`RDS PostgreSQL ${metadata} in two zones`, HOURS_PER_MONTH, "hour", price),
    line("RDS storage", METADATA_STORAGE_GIB, "GiB-month", DATABASE_PRICES.gp3GibMonth),
  ];
}

/** Private zones with the brokers' names and with that of the gateways. */
export const ZONES_PER_CLUSTER = 2;
/** What the control link carries: 240 KiB of metrics every ten seconds. */
const LINK_GIB_PER_SLOT = 60;

function networkLines(
  cluster: PricedCluster,
  aws: AwsSpec,
  zones: number,
  prices: RegionPrices,
  use: MonthlyUse,
): CostLine[] {
  const ownVpc = aws.network.vpcId === undefined;
  if (cluster.retained) return [];
  const zonesWithSlot = Math.min(zones, cluster.brokers);
  // One more for the control link, also in a VPC that the tenant brought.
  const services = (ownVpc ? INTERFACE_ENDPOINT_SERVICES.length : 0) + 1;
  const endpoints = services * zonesWithSlot * HOURS_PER_MONTH;
  const linked = cluster.paused ? 0 : LINK_GIB_PER_SLOT * cluster.brokers;
  // A unit is one GB an hour; each record passes once when produced and once when consumed.
  const units = cluster.paused ? 0 : 2 * use.producedGib;
  const between = cluster.brokers === 1 ? 0 : units * (1 - 1 / zonesWithSlot);
  return [
    line("Network load balancer", HOURS_PER_MONTH, "hour", prices.balancerHour),
    line("Network load balancer capacity", units, "unit-hour", prices.balancerUnitHour),
    line("VPC interface endpoints", endpoints, "endpoint-hour", prices.endpointHour),
    line("VPC interface endpoint traffic", linked, "GiB", ENDPOINT_GIB),
    line("Traffic between zones", between, "GiB", BETWEEN_ZONES_GIB),
    line("Route 53 private zones", ZONES_PER_CLUSTER, "zone-month", HOSTED_ZONE_MONTH),
  ];
}

/** A cent for the zone that sends and one for the zone that receives. */
const BETWEEN_ZONES_GIB = 0.02;
/** The same in every region. */
const HOSTED_ZONE_MONTH = 0.5;
/** Of the first petabyte. */
const ENDPOINT_GIB = 0.01;
const KMS_KEY_MONTH = 1;
const SECRET_MONTH = 0.4;
const ALARM_MONTH = 0.1;
const METRIC_MONTH = 0.3;
/** Bytes that one read of the bucket brings: `s3.prefetch` and catch-up reads ask for blocks. */
const READ_BYTES = 4 * 1024 ** 2;
/** Each object is written once and merged about once. */
const WRITES_PER_OBJECT = 2;
/** A broker uploads once a minute, however little there is. */
const IDLE_UPLOADS_MONTH = HOURS_PER_MONTH * 60;
/** A quarter of the log cache is the most that one upload takes. */
const UPLOAD_SHARE_OF_CACHE = 0.25;

function storageLines(cluster: PricedCluster, prices: RegionPrices, use: MonthlyUse): CostLine[] {
  const stored = line("S3 storage", use.storedGib, "GiB-month", prices.s3GibMonth);
  if (cluster.paused || cluster.retained) return [stored];
  const sizing = sizingOf(cluster.size);
  const cache = sizing.walCacheBytes * UPLOAD_SHARE_OF_CACHE;
  const object = Math.min(sizing.uploadThresholdBytes, cache);
  const uploads = (use.producedGib * GIB) / object + cluster.brokers * IDLE_UPLOADS_MONTH;
  const reads = (use.producedGib * use.readsFromBucket * GIB) / READ_BYTES;
  return [
    stored,
    line(
      "S3 writes",
      (uploads * WRITES_PER_OBJECT) / 1000,
      "1000 requests",
      prices.s3WritesThousand,
    ),
    line("S3 reads", reads / 1000, "1000 requests", prices.s3ReadsThousand),
  ];
}

/** Alarms of a running cluster and of each of its slots, as its stack has them. */
export const ALARMS_PER_CLUSTER = 1;
export const ALARMS_PER_SLOT = 4;
/** Of the metadata database of several. */
export const ALARMS_OF_DATABASE = 2;
/** The password of the metadata database, and its address with it. */
export const SECRETS_OF_DATABASE = 2;
/** Seven of EC2's detailed monitoring, and what a slot reports: ready, and how full its volume is. */
const METRICS_PER_SLOT = 7 + 2;
/** What a broker and its machine log in a month. */
const LOGS_GIB_PER_SLOT = 1;

function observationLines(cluster: PricedCluster, aws: AwsSpec, prices: RegionPrices): CostLine[] {
  const ownKey = aws.storage.kmsKeyArn === undefined ? 1 : 0;
  const key = line("KMS key", ownKey, "key-month", KMS_KEY_MONTH);
  const several = cluster.brokers > 1 ? 1 : 0;
  const ofDatabase = several * SECRETS_OF_DATABASE;
  const secrets = ofDatabase + (cluster.retained ? 0 : cluster.brokers);
  const secretLine = line("Secrets Manager secrets", secrets, "secret-month", SECRET_MONTH);
  if (cluster.retained) return [key, secretLine];
  const running = cluster.paused ? 0 : 1;
  const alarms =
    running *
    (ALARMS_PER_CLUSTER + ALARMS_PER_SLOT * cluster.brokers + several * ALARMS_OF_DATABASE);
  const metrics = running * METRICS_PER_SLOT * cluster.brokers;
  const logs = running * LOGS_GIB_PER_SLOT * cluster.brokers;
  return [
    key,
    secretLine,
    line("CloudWatch alarms", alarms, "alarm-month", ALARM_MONTH),
    line("CloudWatch metrics", metrics, "metric-month", METRIC_MONTH),
    line("CloudWatch logs", logs, "GiB", prices.logsGib),
  ];
}

function line(item: string, quantity: number, unit: string, unitPrice: number): CostLine {
  const rounded = Math.round(quantity * 1000) / 1000;
  return { item, quantity: rounded, unit, unitPrice, monthly: cents(quantity * unitPrice) };
}

function cents(usd: number): number {
  return Math.round(usd * 100) / 100;
}
