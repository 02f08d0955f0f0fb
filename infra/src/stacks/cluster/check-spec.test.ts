import type { AwsNetwork } from "@millrace/domain";
import { expect, test } from "vitest";
import { SPEC } from "../../../test/stack-fixture.ts";
import { checkClusterStackSpec, forbiddenChanges, StackSpecError } from "./check-spec.ts";
import type { ClusterStackSpec, ControlLinkService } from "./spec.ts";

function network(change: Partial<AwsNetwork>): Partial<ClusterStackSpec> {
  return { network: { ...SPEC.network, ...change } };
}

function link(change: Partial<ControlLinkService>): Partial<ClusterStackSpec> {
  return { controlLink: { ...SPEC.controlLink, ...change } };
}

const EXISTING = {
  vpcId: "vpc-0123456789abcdef0",
  subnetIds: ["subnet-0a000000", "subnet-0b000000", "subnet-0c000000"],
};

test("a spec that can stand is taken", () => {
  expect(() => checkClusterStackSpec(SPEC)).not.toThrow();
  expect(() => checkClusterStackSpec({ ...SPEC, ...network(EXISTING) })).not.toThrow();
});

test.each<[string, Partial<ClusterStackSpec>]>([
  ["/account_id", { accountId: "1111" }],
  ["/region", { region: "mars-north-1" }],
  ["/zones", { zones: ["us-east-1a"] }],
  ["/zones", { zones: ["eu-central-1a", "eu-central-1a"] }],
  ["/zones", { zones: [], slots: 1 }],
  ["/zones", { zones: ["eu-central-1a"], slots: 2 }],
  ["/database_authority", { databaseAuthority: undefined }],
  ["/brokers", { slots: 0 }],
  ["/brokers", { slots: 10 }],
  ["/network/cidr", network({ cidr: "10.0.0.0/8" })],
  ["/network/subnet_ids", network({ subnetIds: ["subnet-0a000000"] })],
  ["/network/subnet_ids", network({ ...EXISTING, subnetIds: [] })],
  ["/network/allowed_principals", network({ access: "private" })],
  [
    "/network/allowed_cidrs",
    network({ ...EXISTING, access: "private", allowedPrincipals: [], allowedCidrs: [] }),
  ],
  ["/wal/iops", { wal: { ...SPEC.wal, iops: 100 } }],
  ["/control_link/name", link({ name: "com.amazonaws.vpce.us-east-1.vpce-svc-0" })],
  ["/control_link/domain", link({ domain: "link" })],
  ["/control_link/zones", link({ zones: ["eu-central-1d"] })],
  ["/storage/kms_key_arn", { storage: { kmsKeyArn: "arn:aws:kms:us-east-1:1:key/a" } }],
])("%s: what cannot stand is refused with its place", (pointer, change) => {
  const check = () => checkClusterStackSpec({ ...SPEC, ...change });
  expect(check).toThrow(StackSpecError);
  try {
    check();
  } catch (error) {
    const { fields } = error as StackSpecError;
    expect(fields.map((field) => field.pointer)).toContain(pointer);
    expect(fields.every((field) => field.message.length > 20)).toBe(true);
  }
});

test.each<[string, Partial<ClusterStackSpec>]>([
  ["/id", { clusterId: "clu_other" }],
  ["/account_id", { accountId: "999999999999" }],
  ["/region", { region: "eu-west-1" }],
  ["/network/vpc_id", network({ vpcId: "vpc-0123456789abcdef0" })],
  ["/network/cidr", network({ cidr: "10.41.0.0/16" })],
  ["/storage/kms_key_arn", { storage: { kmsKeyArn: "arn:aws:kms:eu-central-1:1:key/a" } }],
  ["/brokers", { slots: 1 }],
  ["/wal/type", { wal: { type: "io2", sizeGib: 20, iops: 3000, throughputMibps: undefined } }],
  ["/zones", { zones: ["eu-central-1b", "eu-central-1a", "eu-central-1c"] }],
  ["/wal/size_gib", { wal: { ...SPEC.wal, sizeGib: 19 } }],
  ["/wal/size_gib", { wal: { ...SPEC.wal, sizeGib: 40 } }],
])("%s: a change that would move or lose data is refused", (pointer, change) => {
  const fields = forbiddenChanges(SPEC, { ...SPEC, ...change });
  expect(fields.map((field) => field.pointer)).toEqual([pointer]);
});

test("what changes in place is allowed", () => {
  const after: ClusterStackSpec = {
    ...SPEC,
    mode: "paused",
    size: "medium",
    slots: 6,
    wal: { ...SPEC.wal, iops: 4000 },
    labels: {},
    ...network({ access: "private", allowedPrincipals: [], allowedCidrs: [] }),
  };
  expect(forbiddenChanges(SPEC, after)).toEqual([]);
  expect(forbiddenChanges(SPEC, { ...SPEC, slots: 2 })).toEqual([]);
  // Fewer zones may still leave every slot where it is.
  const one = { ...SPEC, slots: 1 };
  expect(forbiddenChanges(one, { ...one, zones: ["eu-central-1a"] })).toEqual([]);
  const io2 = { type: "io2", sizeGib: 20, iops: 4000, throughputMibps: undefined } as const;
  expect(forbiddenChanges(one, { ...one, wal: io2 })).toEqual([]);
});

test("from one broker to several and back is refused", () => {
  for (const [from, to] of [
    [1, 3],
    [3, 1],
  ] as const) {
    const fields = forbiddenChanges({ ...SPEC, slots: from }, { ...SPEC, slots: to });
    expect(fields.map(({ pointer }) => pointer)).toEqual(["/brokers"]);
  }
});
