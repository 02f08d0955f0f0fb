import { expect, test } from "vitest";
import { defaultAwsSpec } from "./aws-spec.ts";
import { estimateMonthly, type PricedCluster } from "./price.ts";
import { AWS_REGIONS, regionFacts } from "./region.ts";
import { CLUSTER_SIZE_NAMES } from "./size.ts";

const CLUSTER: PricedCluster = {
  region: "us-east-1",
  size: "small",
  brokers: 3,
  zones: 3,
  aws: undefined,
  paused: false,
  retained: false,
};

function cost(change: Partial<PricedCluster> = {}) {
  return estimateMonthly({ ...CLUSTER, ...change });
}

function itemsOf(change: Partial<PricedCluster> = {}): Map<string, number> {
  return new Map(cost(change).lines.map((line) => [line.item, line.monthly]));
}

test("three small brokers in us-east-1: instances, volumes and endpoints by hand", () => {
  const items = itemsOf();
  expect(items.get("EC2 instance m7g.large")).toBe(178.7); // 3 × 730 h × 0.0816
  expect(items.get("EBS WAL volume gp3")).toBe(4.8); // 3 × 20 GiB × 0.08
  expect(items.get("VPC interface endpoints")).toBe(109.5); // 5 × 3 zones × 730 h × 0.01
  expect(items.get("VPC interface endpoint traffic")).toBe(1.8); // 3 × 60 GiB × 0.01
  expect(items.get("Secrets Manager secrets")).toBe(2); // (3 + 2 of the database) × 0.40
  expect(items.get("RDS PostgreSQL db.t4g.medium in two zones")).toBe(94.17); // 730 h × 0.129
  expect(items.get("RDS storage")).toBe(4.6); // 20 GiB × 0.23
  expect(items.get("Traffic between zones")).toBe(66.67); // 2 × 2500 GiB × 2/3 × 0.02
  expect(items.get("CloudWatch metrics")).toBe(8.1); // 3 × 9 × 0.30
  expect(items.get("Network load balancer")).toBe(16.43); // 730 h × 0.0225, rounded
  expect(items.has("EBS WAL volume IOPS above 3,000")).toBe(false);
});

test("every region prices every size, the total is the sum of its lines", () => {
  for (const region of AWS_REGIONS) {
    expect(regionFacts(region).zones).toHaveLength(3);
    for (const size of CLUSTER_SIZE_NAMES) {
      const estimate = cost({ region, size });
      const sum = estimate.lines.reduce((total, line) => total + line.monthly, 0);
      expect(estimate.total).toBeCloseTo(sum, 6);
      expect(estimate.lines.every((line) => line.monthly >= 0 && line.unitPrice > 0)).toBe(true);
      expect(estimate.asOf).toMatch(/^\d{4}-\d\d-\d\d$/);
    }
  }
});

test("a faster volume costs what it is faster by", () => {
  const aws = defaultAwsSpec("small");
  const fast = { ...aws, wal: { ...aws.wal, iops: 4000, throughputMibps: 250 } };
  // 3 × (1000 IOPS × 0.005 + 125 MiB/s × 0.04)
  expect(cost({ aws: fast }).total - cost().total).toBeCloseTo(30, 2);
});

test("a pause saves the machines, a deletion leaves what holds data", () => {
  const paused = itemsOf({ paused: true });
  expect(paused.has("EC2 instance m7g.large")).toBe(false);
  expect(paused.has("EBS WAL volume gp3")).toBe(true);
  expect(paused.has("Network load balancer")).toBe(true);
  expect(paused.has("VPC interface endpoint traffic")).toBe(false);
  const kept = ["EBS WAL volume gp3", "S3 storage", "KMS key"];
  const retained = (brokers: number) => [...itemsOf({ brokers, retained: true }).keys()];
  expect(retained(1)).toEqual(kept);
  expect(new Set(retained(3))).toEqual(
    new Set([
      ...kept,
      "RDS PostgreSQL db.t4g.medium in two zones",
      "RDS storage",
      "Secrets Manager secrets",
    ]),
  );
});

test("a VPC and a key of the tenant's cost what they cost already, and the way to the control plane", () => {
  const aws = defaultAwsSpec("small");
  const own = {
    ...aws,
    network: { ...aws.network, vpcId: "vpc-1" },
    storage: { kmsKeyArn: "arn:aws:kms:us-east-1:111122223333:key/1" },
  };
  const items = itemsOf({ aws: own });
  expect(items.get("VPC interface endpoints")).toBe(21.9); // 3 zones × 730 h × 0.01
  expect(items.has("KMS key")).toBe(false);
});

test("one broker has no database, and no traffic between zones of its own", () => {
  const items = [...itemsOf({ brokers: 1 }).keys()];
  expect(items.filter((item) => /RDS|between zones/.test(item))).toEqual([]);
  expect(cost({ brokers: 1 }).assumptions.join()).not.toContain("database");
  expect(cost({ brokers: 2 }).assumptions.join()).toContain("us-east-1");
});

test("io2 volumes of several brokers cost their size and every IOPS", () => {
  const aws = defaultAwsSpec("small");
  const wal = { type: "io2", sizeGib: 20, iops: 3000, throughputMibps: undefined } as const;
  const items = itemsOf({ aws: { ...aws, wal } });
  expect(items.get("EBS WAL volume io2")).toBe(7.5); // 3 × 20 GiB × 0.125
  expect(items.get("EBS WAL volume IOPS")).toBe(585); // 3 × 3000 × 0.065
});

test("this machine costs nothing", () => {
  expect(cost({ region: "local" })).toMatchObject({ total: 0, lines: [] });
});
