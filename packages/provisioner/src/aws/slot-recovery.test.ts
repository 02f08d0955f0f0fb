import { EC2Client } from "@aws-sdk/client-ec2";
import {
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { beforeEach, expect, test } from "vitest";
import { answering } from "../../test/answering.ts";
import { SlotRecovery } from "./slot-recovery.ts";

const PREFIX = "meta/nodes/0/recovery/";

/** Objects by key; each was written a second after the one before. */
let objects: Map<string, string>;
/** Volumes with the slot's tags. */
let volumes: string[];
let recovery: SlotRecovery;

function report(recoveredTo: string, source = "bucket"): string {
  return JSON.stringify({
    ...{ source, recovered_to: recoveredTo, topics: 1, partitions: 1 },
    ...{ records_from_wal: "0", bytes_from_wal: "0", missing: [], warnings: [] },
  });
}

beforeEach(() => {
  objects = new Map();
  volumes = ["vol-2"];
  const ec2 = answering(EC2Client, () => ({
    Volumes: volumes.map((VolumeId) => ({ VolumeId })),
  }));
  const s3 = answering(S3Client, (command: unknown) => {
    if (command instanceof ListObjectsV2Command) {
      const Contents = [...objects.keys()].map((Key, second) => {
        return { Key, LastModified: new Date(second * 1_000) };
      });
      return { Contents: Contents.filter(({ Key }) => Key.startsWith(command.input.Prefix ?? "")) };
    }
    if (command instanceof GetObjectCommand) {
      const text = objects.get(command.input.Key ?? "") ?? "";
      return { ContentLength: text.length, Body: { transformToString: async () => text } };
    }
    if (command instanceof PutObjectCommand) {
      objects.set(command.input.Key ?? "", String(command.input.Body));
      return {};
    }
    throw new Error("another command");
  });
  recovery = new SlotRecovery({ ec2, s3 }, "clu_a", "data");
});

const approvals = () => [...objects.keys()].filter((key) => key.endsWith("approved"));

test("the report about the slot's volume is the plan, and its approval goes beside it", async () => {
  objects.set(`${PREFIX}vol-1/report`, report("2026-11-01T00:00:00Z"));
  objects.set(`${PREFIX}vol-1/approved`, "");
  objects.set(`${PREFIX}vol-2/report`, report("2026-11-22T00:00:00Z"));
  expect(await recovery.waitingVolume()).toBe("vol-2");
  const plan = await recovery.plan();
  expect(plan.recovery?.recoveredTo).toBe("2026-11-22T00:00:00Z");
  expect(plan.diff).toContain("vol-2");
  await recovery.apply(plan.id);
  expect(objects.get(`${PREFIX}vol-2/approved`)).toBe(plan.id);
  expect(await recovery.waitingVolume()).toBeUndefined();
  // An attempt that was killed after its approval approves again.
  await recovery.apply(plan.id);
});

test("a slot that reports nothing, or has its approval, is not recovered", async () => {
  objects.set("meta/nodes/0/log/0000000000000001", "an item of the backup");
  await expect(recovery.plan()).rejects.toMatchObject({ code: "not_recoverable" });
  expect(await recovery.waitingVolume()).toBeUndefined();
  objects.set(`${PREFIX}vol-2/report`, report("2026-11-01T00:00:00Z"));
  objects.set(`${PREFIX}vol-2/approved`, "");
  await expect(recovery.plan()).rejects.toMatchObject({
    ...{ code: "not_recoverable", message: expect.stringContaining("vol-2 is approved already") },
  });
});

test("a report about another volume, however new, starts, blocks and satisfies no recovery", async () => {
  objects.set(`${PREFIX}vol-20/report`, report("2026-11-01T00:00:00Z"));
  expect(await recovery.waitingVolume()).toBeUndefined();
  await expect(recovery.plan()).rejects.toMatchObject({
    ...{ code: "not_recoverable", message: expect.stringContaining("no loss of its volume vol-2") },
  });
  objects.set(`${PREFIX}vol-2/report`, report("2026-11-22T00:00:00Z"));
  objects.set(`${PREFIX}vol-1/report`, report("2026-11-30T00:00:00Z"));
  objects.set(`${PREFIX}vol-1/approved`, "");
  expect(await recovery.waitingVolume()).toBe("vol-2");
  expect((await recovery.plan()).recovery?.recoveredTo).toBe("2026-11-22T00:00:00Z");
});

test("an approval does not hold for the volume that replaced the approved one", async () => {
  objects.set(`${PREFIX}vol-2/report`, report("2026-11-01T00:00:00Z"));
  const { id } = await recovery.plan();
  volumes = ["vol-3"];
  // Exactly the same loss: only the volume differs.
  objects.set(`${PREFIX}vol-3/report`, report("2026-11-01T00:00:00Z"));
  await expect(recovery.apply(id)).rejects.toMatchObject({
    code: "plan_stale",
    message:
      "the recovery was approved for the volume vol-2, but the slot now has vol-3: nothing was " +
      "recovered; review and approve the plan for vol-3",
  });
  expect(approvals()).toEqual([]);
  const again = await recovery.plan();
  expect(again.digest).not.toBe(id);
  await recovery.apply(again.id);
  expect(approvals()).toEqual([`${PREFIX}vol-3/approved`]);
});

test("metadata lost on an intact volume: each loss has a report and an approval of its own", async () => {
  objects.set(`${PREFIX}vol-2/report`, report("2026-10-01T00:00:00Z"));
  objects.set(`${PREFIX}vol-2/approved`, "");
  objects.set(`${PREFIX}vol-2/a1/report`, report("2026-11-01T00:00:00Z"));
  objects.set(`${PREFIX}vol-2/a1/approved`, "");
  expect(await recovery.waitingVolume()).toBeUndefined();
  objects.set(`${PREFIX}vol-2/b2/report`, report("2026-11-22T00:00:00Z", "bucket+wal"));
  expect(await recovery.waitingVolume()).toBe("vol-2");
  const plan = await recovery.plan();
  expect(plan.recovery).toMatchObject({ source: "bucket+wal", missing: [], missingPartitions: 0 });
  await recovery.apply(plan.id);
  expect(objects.get(`${PREFIX}vol-2/b2/approved`)).toBe(plan.id);
});

test("another loss on the same volume since the plan is another plan: nothing is approved", async () => {
  objects.set(`${PREFIX}vol-2/a1/report`, report("2026-11-01T00:00:00Z"));
  const { id } = await recovery.plan();
  objects.set(`${PREFIX}vol-2/b2/report`, report("2026-11-22T00:00:00Z"));
  await expect(recovery.apply(id)).rejects.toMatchObject({ code: "plan_stale" });
  expect(approvals()).toEqual([]);
});

test.each([[[]], [["vol-2", "vol-3"]]])(
  "with the volumes %j nothing is recovered",
  async (found) => {
    volumes = found;
    objects.set(`${PREFIX}vol-2/report`, report("2026-11-01T00:00:00Z"));
    await expect(recovery.plan()).rejects.toMatchObject({
      ...{ code: "not_recoverable", message: expect.stringContaining("exactly one must") },
    });
  },
);
