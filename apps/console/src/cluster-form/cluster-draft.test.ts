import { awsSizing, estimateMonthly } from "@millrace/domain";
import { describe, expect, it } from "vitest";
import {
  type ClusterDraft,
  checkDraft,
  inRegion,
  NEW_CLUSTER,
  requestOf,
  startingWith,
  withSize,
} from "./cluster-draft.ts";
import { estimateOf, monthlyIn } from "./estimate.ts";
import { DEFAULT_NETWORK_DRAFT, type NetworkDraft } from "./network-draft.ts";
import { checkWalDraft, defaultWalDraft, walRequestOf, withType } from "./wal-draft.ts";

const named: ClusterDraft = { ...NEW_CLUSTER, name: "orders" };
const onAws = inRegion(named, "eu-central-1");

describe("a described cluster", () => {
  it("asks for nothing on this machine that only AWS has", () => {
    expect(requestOf(named)).toEqual({
      name: "orders",
      region: "local",
      size: "dev",
      deletion_protection: false,
    });
    expect(checkDraft({ ...named, kmsKeyArn: "x", wal: { ...named.wal, iops: 1 } })).toEqual({});
  });

  it("has a plaintext listener on this machine unless it is turned off, and on AWS no choice", () => {
    const secure = { ...named, plaintextListener: false };
    expect(requestOf(secure)).toMatchObject({ plaintext_listener: false });
    expect(requestOf(inRegion(secure, "eu-central-1"))).not.toHaveProperty("plaintext_listener");
  });

  it("has one broker unless more are asked for, here and on AWS", () => {
    const several = { ...named, brokers: 3 };
    expect(requestOf(named)).not.toHaveProperty("brokers");
    expect(requestOf(several)).toMatchObject({ brokers: 3 });
    expect(requestOf(inRegion(several, "eu-central-1"))).toMatchObject({ brokers: 3 });
  });

  it("is protected on AWS, and keeps what was chosen from one AWS region to the next", () => {
    expect(onAws.deletionProtection).toBe(true);
    const open = { ...onAws, deletionProtection: false };
    expect(inRegion(open, "us-east-1").deletionProtection).toBe(false);
    expect(inRegion(onAws, "local").deletionProtection).toBe(false);
  });

  it("asks on AWS for its volume, network and key", () => {
    expect(requestOf({ ...onAws, kmsKeyArn: " arn:aws:kms:k ", requireApproval: true })).toEqual({
      name: "orders",
      region: "eu-central-1",
      size: "dev",
      deletion_protection: true,
      require_approval: true,
      wal: { type: "gp3", size_gib: 10, iops: 3000, throughput_mibps: 125 },
      network: {
        access: "private",
        allowed_principals: [],
        allowed_cidrs: [],
      },
      storage: { kms_key_arn: "arn:aws:kms:k" },
    });
  });

  it("sends of the network only what the choice asks for", () => {
    const network: NetworkDraft = {
      ...DEFAULT_NETWORK_DRAFT,
      vpc: "existing",
      vpcId: "vpc-1",
      subnetIds: ["subnet-1"],
      allowedPrincipals: ["arn:aws:iam::1:root"],
    };
    expect(requestOf({ ...onAws, network }).network).toEqual({
      vpc_id: "vpc-1",
      subnet_ids: ["subnet-1"],
      access: "private",
      allowed_principals: [],
      allowed_cidrs: [],
    });
  });

  it("says of a name what is wrong with it, not the rule again", () => {
    const errorOf = (name: string) => checkDraft({ ...named, name })["/name"];
    expect(errorOf("")).toBe("Enter a name");
    expect(errorOf("Orders")).toBe("Use only lowercase letters, digits and hyphens");
    expect(errorOf("1st")).toBe("Start with a letter");
    expect(errorOf("orders-")).toBe("End with a letter or a digit");
    expect(errorOf("o".repeat(64))).toBe("Enter 63 characters or fewer");
    expect(errorOf("orders-2")).toBeUndefined();
  });

  it("says at which field what is missing", () => {
    const network = { ...DEFAULT_NETWORK_DRAFT, vpc: "existing" as const };
    expect(Object.keys(checkDraft({ ...onAws, name: "Not A Name", network }))).toEqual([
      "/name",
      "/network/vpc_id",
      "/network/subnet_ids",
    ]);
  });

  it("leaves the range to the API unless one is given", () => {
    const blank = { ...onAws, network: { ...DEFAULT_NETWORK_DRAFT, cidr: " " } };
    expect(checkDraft(blank)).toEqual({});
    expect(requestOf(blank).network).not.toHaveProperty("cidr");
    const given = { ...onAws, network: { ...DEFAULT_NETWORK_DRAFT, cidr: " 10.7.0.0/16 " } };
    expect(requestOf(given).network).toMatchObject({ cidr: "10.7.0.0/16" });
  });

  it("begins where the installation can create clusters", () => {
    const regions = (local: boolean, aws: boolean) => [
      { id: "local" as const, available: local },
      { id: "us-east-1" as const, available: aws },
    ];
    expect(startingWith(named, []).region).toBe("local");
    expect(startingWith(named, regions(true, true)).region).toBe("local");
    expect(startingWith(named, regions(false, true))).toMatchObject({
      region: "us-east-1",
      deletionProtection: true,
    });
    expect(startingWith(named, regions(false, false)).region).toBe("local");
  });

  it("takes its size's volume along, unless somebody chose another", () => {
    expect(withSize(onAws, "medium").wal).toEqual(defaultWalDraft("medium"));
    const chosen = { ...onAws, wal: { ...onAws.wal, sizeGib: 99 } };
    expect(withSize(chosen, "medium").wal.sizeGib).toBe(99);
  });
});

describe("a described volume", () => {
  it("is refused in sentences, at the field", () => {
    const errors = checkWalDraft({ ...onAws.wal, iops: 2_000, sizeGib: "" }, "dev");
    expect(errors["/wal/iops"]).toMatch(/^Must be a whole number of IOPS from 3000 to 16000/);
    expect(errors["/wal/size_gib"]).toMatch(/^Must be a whole number of GiB from 8 to 1024/);
    expect(checkWalDraft(onAws.wal, "dev")).toEqual({});
  });

  it("never gets smaller than it is", () => {
    const errors = checkWalDraft({ ...onAws.wal, sizeGib: 9 }, "dev", awsSizing("dev").wal);
    expect(errors["/wal/size_gib"]).toMatch(/can only grow/);
  });

  it("has what the other type grants when the type changes", () => {
    const io2 = withType(onAws.wal, "io2");
    expect(checkWalDraft(io2, "dev")).toEqual({});
    expect(walRequestOf(io2)).not.toHaveProperty("throughput_mibps");
    const back = withType({ ...io2, iops: 100 }, "gp3");
    expect(back).toMatchObject({ iops: 3000, throughputMibps: 125 });
    expect(checkWalDraft(back, "dev")).toEqual({});
  });
});

describe("the estimate", () => {
  it("is none on this machine, and none for a volume that cannot be had", () => {
    expect(estimateOf(named)).toBeUndefined();
    expect(estimateOf({ ...onAws, wal: { ...onAws.wal, iops: "" } })).toBeUndefined();
  });

  it("is the domain's own, name or not", () => {
    const estimate = estimateOf({ ...onAws, name: "" });
    const expected = estimateMonthly({
      region: "eu-central-1",
      size: "dev",
      brokers: 1,
      zones: undefined,
      aws: undefined,
      paused: false,
      retained: false,
    });
    expect(estimate).toEqual(expected);
  });

  it("grows with size, IOPS and a key of the cluster's own", () => {
    const total = estimateOf(onAws)?.total ?? 0;
    expect(monthlyIn(onAws, "medium")).toBeGreaterThan(total);
    const faster = { ...onAws.wal, iops: 5_000 };
    expect(estimateOf({ ...onAws, wal: faster })?.total).toBeGreaterThan(total);
    expect(estimateOf({ ...onAws, kmsKeyArn: "arn:aws:kms:k" })?.total).toBeLessThan(total);
  });
});
