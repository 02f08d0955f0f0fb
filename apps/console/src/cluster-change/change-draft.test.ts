import { describe, expect, it } from "vitest";
import { awsCluster, localCluster } from "../cluster/cluster.fixture.ts";
import { type ChangeDraft, changeDraftOf, checkChange, patchOf } from "./change-draft.ts";

const cluster = awsCluster();
const draft = changeDraftOf(cluster);
const patch = (change: Partial<ChangeDraft>) => patchOf(cluster, { ...draft, ...change });

describe("a change", () => {
  it("begins as the cluster is, and that is no change", () => {
    expect(patch({})).toEqual({});
    expect(checkChange(cluster, draft)).toEqual({});
    const here = localCluster();
    expect(patchOf(here, changeDraftOf(here))).toEqual({});
  });

  it("asks for what differs and for nothing else", () => {
    expect(patch({ name: "ledger", size: "medium" })).toEqual({ name: "ledger", size: "medium" });
    const wal = { type: "gp3", sizeGib: 20, iops: 3000, throughputMibps: 250 } as const;
    expect(patch({ wal })).toEqual({
      wal: { type: "gp3", size_gib: 20, iops: 3000, throughput_mibps: 250 },
    });
  });

  it("turns the plaintext listener of a cluster on this machine off and on, and none on AWS", () => {
    const here = localCluster();
    const changed = { ...changeDraftOf(here), plaintextListener: false };
    expect(patchOf(here, changed)).toEqual({ plaintext_listener: false });
    expect(draft.plaintextListener).toBeUndefined();
  });

  it("changes the number of several brokers, and not that of one", () => {
    const one = localCluster();
    expect(changeDraftOf(one).brokers).toBeUndefined();
    const several = { ...one, spec: { ...one.spec, brokers: 3 } };
    const changed = { ...changeDraftOf(several), brokers: 5 };
    expect(patchOf(several, changed)).toEqual({ brokers: 5 });
    expect(draft.brokers).toBeUndefined();
  });

  it("takes labels away by name, and leaves those alone that stay", () => {
    expect(patch({ labels: ["team=payments", "cost=a=b"] })).toEqual({
      labels: { stage: null, cost: "a=b" },
    });
    expect(patch({ labels: ["stage=prod", "team=payments"] })).toEqual({});
  });

  it("sends principals only to where others may connect", () => {
    const reach = {
      access: "private",
      allowedPrincipals: ["arn:aws:iam::111122223333:root"],
      allowedCidrs: ["10.0.0.0/8"],
    } as const;
    const wanted = { ...reach, allowedPrincipals: [...reach.allowedPrincipals] };
    expect(patch({ reach: { ...wanted, allowedCidrs: [...reach.allowedCidrs] } })).toEqual({
      network: { access: "private", allowed_principals: [], allowed_cidrs: ["10.0.0.0/8"] },
    });
  });

  it("refuses a label without a value instead of saving it as an empty one", () => {
    expect(checkChange(cluster, { ...draft, labels: ["nonsense"] })["/labels"]).toContain(
      '"nonsense" is not a label',
    );
    expect(checkChange(cluster, { ...draft, labels: ["empty="] })).toEqual({});
  });

  it("says at which field what cannot be", () => {
    const wal = { type: "gp3", sizeGib: 10, iops: 3000, throughputMibps: 125 } as const;
    const errors = checkChange(cluster, {
      ...draft,
      name: "No Name",
      labels: ["team=payments", "Cost=1"],
      wal,
    });
    expect(Object.keys(errors)).toEqual(["/name", "/labels", "/wal/size_gib"]);
    expect(errors["/labels"]).toContain('"Cost=1"');
    expect(errors["/wal/size_gib"]).toMatch(/can only grow/);
  });
});
