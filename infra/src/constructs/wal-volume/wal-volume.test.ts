import { expect, test } from "vitest";
import { resource, snapshotText, stackOf } from "../../../test/stack-fixture.ts";
import { WalVolume, type WalVolumeProps } from "./wal-volume.ts";

function volume(change: Partial<WalVolumeProps> = {}) {
  return stackOf((scope) => {
    new WalVolume(scope, "wal", {
      name: "test-wal",
      zone: "eu-central-1a",
      shape: { type: "gp3", sizeGib: 20, iops: 3000, throughputMibps: 250 },
      kmsKeyArn: "arn:aws:kms:eu-central-1:111122223333:key/1",
      tags: { "millrace:slot": "0" },
      protected: true,
      ...change,
    });
  });
}

test("a volume is what the snapshot shows", async () => {
  await expect(snapshotText(volume())).toMatchFileSnapshot("wal-volume.snap");
});

test("it is encrypted with the given key and protected until the purge", () => {
  expect(resource(volume(), "aws_ebs_volume")).toMatchObject({
    encrypted: true,
    kms_key_id: "arn:aws:kms:eu-central-1:111122223333:key/1",
    lifecycle: { prevent_destroy: true },
    tags: { "millrace:slot": "0" },
  });
  const purged = resource(volume({ protected: false }), "aws_ebs_volume");
  expect(purged.lifecycle).toEqual({ prevent_destroy: false });
});

test("a type without a throughput of its own is given none", () => {
  const shape = { type: "io2", sizeGib: 20, iops: 4000, throughputMibps: undefined } as const;
  const io2 = resource(volume({ shape }), "aws_ebs_volume");
  expect(io2).toMatchObject({ type: "io2", iops: 4000 });
  expect(io2).not.toHaveProperty("throughput");
});
