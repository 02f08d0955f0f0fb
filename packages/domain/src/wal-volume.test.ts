import fc from "fast-check";
import { expect, test } from "vitest";
import { AWS_INSTANCES } from "./aws-instance.ts";
import { awsSizing } from "./aws-size.ts";
import { defaultAwsSpec } from "./aws-spec.ts";
import { CLUSTER_SIZE_NAMES, sizingOf } from "./size.ts";
import { walCapacityOf } from "./wal-capacity.ts";
import {
  baselinesOf,
  checkWalVolume,
  checkWalVolumeChange,
  type WalVolume,
  walVolumeWarnings,
} from "./wal-volume.ts";

const GIB = 1024 ** 3;
const INSTANCE = AWS_INSTANCES["m7g.large"];
const GP3: WalVolume = { type: "gp3", sizeGib: 20, iops: 3000, throughputMibps: 125 };
const IO2: WalVolume = { type: "io2", sizeGib: 20, iops: 10_000, throughputMibps: undefined };

function pointers(volume: WalVolume): string[] {
  return checkWalVolume(volume, INSTANCE).map((error) => `${error.pointer} ${error.code}`);
}

test("what EBS does not grant is refused with the field's pointer", () => {
  expect(pointers(GP3)).toEqual([]);
  expect(pointers(IO2)).toEqual([]);
  expect(pointers({ ...GP3, sizeGib: 7 })).toEqual(["/size_gib out_of_range"]);
  expect(pointers({ ...GP3, sizeGib: 20.5 })).toEqual(["/size_gib out_of_range"]);
  expect(pointers({ ...GP3, iops: 2999 })).toEqual(["/iops out_of_range"]);
  expect(pointers({ ...GP3, iops: 12_000 })).toEqual(["/iops too_large"]);
  expect(pointers({ ...GP3, throughputMibps: 1001 })).toEqual(["/throughput_mibps out_of_range"]);
  expect(pointers({ ...GP3, throughputMibps: 751 })).toEqual(["/throughput_mibps too_large"]);
  expect(pointers({ ...GP3, throughputMibps: undefined })).toEqual(["/throughput_mibps required"]);
  expect(pointers({ ...IO2, throughputMibps: 500 })).toEqual(["/throughput_mibps not_applicable"]);
  expect(pointers({ ...IO2, sizeGib: 64, iops: 50_000 })).toEqual(["/iops too_large"]);
});

test("a volume grows and never shrinks", () => {
  expect(checkWalVolumeChange(GP3, { ...GP3, sizeGib: 40 })).toEqual([]);
  expect(checkWalVolumeChange(GP3, { ...IO2, sizeGib: 20 })).toEqual([]);
  expect(checkWalVolumeChange(GP3, { ...GP3, sizeGib: 19 })).toMatchObject([
    { pointer: "/size_gib", code: "cannot_shrink" },
  ]);
});

test("what the machine cannot sustain is said, what the price includes is not", () => {
  expect(walVolumeWarnings(GP3, INSTANCE)).toEqual([]);
  expect(walVolumeWarnings({ ...GP3, throughputMibps: 250 }, INSTANCE)).toHaveLength(1);
  expect(walVolumeWarnings(IO2, INSTANCE)).toHaveLength(1);
});

test("the log's limits follow the volume up to what the machine sustains", () => {
  const large = AWS_INSTANCES["r7g.xlarge"];
  const slow = baselinesOf({ ...GP3, throughputMibps: 125 }, large);
  const fast = baselinesOf({ ...GP3, throughputMibps: 250 }, large);
  expect(slow.walBytesPerSecond).toBe(125 * 1024 ** 2);
  expect(fast.walBytesPerSecond).toBe(large.ebsBaselineBytesPerSecond);
  expect(baselinesOf({ ...GP3, sizeGib: 40 }, large).walCapacityBytes).toBe(36 * GIB);
  expect(baselinesOf({ ...GP3, iops: 6000 }, large).walIops).toBe(6000);
});

test("uploads can always keep up with a log that is written as fast as its volume takes it", () => {
  const volume = fc.record({
    type: fc.constant("gp3" as const),
    sizeGib: fc.integer({ min: 8, max: 1024 }),
    iops: fc.integer({ min: 3000, max: 16_000 }),
    throughputMibps: fc.integer({ min: 125, max: 1000 }),
  });
  fc.assert(
    fc.property(volume, fc.constantFrom(...Object.values(AWS_INSTANCES)), (wal, instance) => {
      const baselines = baselinesOf(wal, instance);
      expect(baselines.egressBytesPerSecond).toBeGreaterThanOrEqual(baselines.walBytesPerSecond);
      expect(baselines.walCapacityBytes).toBeLessThanOrEqual((wal.sizeGib - 2) * GIB);
      expect(baselines.walCapacityBytes).toBeGreaterThan(0);
    }),
  );
});

test("each size's volume is legal and holds its log, and its machine holds its broker", () => {
  for (const size of CLUSTER_SIZE_NAMES) {
    const { instance, wal } = awsSizing(size);
    expect(checkWalVolume(wal, instance)).toEqual([]);
    expect(walVolumeWarnings(wal, instance)).toEqual([]);
    const sizing = sizingOf(size);
    expect(baselinesOf(wal, instance).walCapacityBytes).toBeGreaterThanOrEqual(sizing.walBytes);
    expect(instance.memoryBytes - sizing.memoryBytes).toBeGreaterThanOrEqual(2 * GIB);
  }
});

test("one of several brokers has a log on its whole volume, one that is alone keeps room for its metadata", () => {
  const owner = { size: "small", aws: defaultAwsSpec("small") } as const;
  expect(walCapacityOf({ ...owner, brokers: 3 })).toBe(20 * 1024 ** 3);
  expect(walCapacityOf(owner)).toBe(18 * 1024 ** 3);
});
