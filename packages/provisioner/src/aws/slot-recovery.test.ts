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
let recovery: SlotRecovery;

function report(recoveredTo: string): string {
  return JSON.stringify({
    ...{ source: "bucket", recovered_to: recoveredTo, topics: 1, partitions: 1 },
    ...{ records_from_wal: "0", bytes_from_wal: "0", missing: [], warnings: [] },
  });
}

beforeEach(() => {
  objects = new Map();
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
  recovery = new SlotRecovery(s3, "data");
});

test("the newest lost volume's report is the plan, and its approval goes beside it", async () => {
  objects.set(`${PREFIX}vol-1/report`, report("2026-11-01T00:00:00Z"));
  objects.set(`${PREFIX}vol-1/approved`, "");
  objects.set(`${PREFIX}vol-2/report`, report("2026-11-22T00:00:00Z"));
  expect(await recovery.lostVolume()).toBe("vol-2");
  const plan = await recovery.plan();
  expect(plan.recovery?.recoveredTo).toBe("2026-11-22T00:00:00Z");
  await recovery.apply(plan.id);
  expect(objects.get(`${PREFIX}vol-2/approved`)).toBe(plan.id);
  expect(await recovery.lostVolume()).toBeUndefined();
  // An attempt that was killed after its approval approves again.
  await recovery.apply(plan.id);
});

test("a slot that reports nothing, or has its approval, is not recovered", async () => {
  objects.set("meta/nodes/0/log/0000000000000001", "an item of the backup");
  await expect(recovery.plan()).rejects.toMatchObject({ code: "not_recoverable" });
  expect(await recovery.lostVolume()).toBeUndefined();
  objects.set(`${PREFIX}vol-1/report`, report("2026-11-01T00:00:00Z"));
  objects.set(`${PREFIX}vol-1/approved`, "");
  await expect(recovery.plan()).rejects.toMatchObject({
    ...{ code: "not_recoverable", message: expect.stringContaining("vol-1 is approved already") },
  });
});

test("another volume lost since the approval is another plan: nothing is approved", async () => {
  objects.set(`${PREFIX}vol-1/report`, report("2026-11-01T00:00:00Z"));
  const { id } = await recovery.plan();
  objects.set(`${PREFIX}vol-2/report`, report("2026-11-22T00:00:00Z"));
  await expect(recovery.apply(id)).rejects.toMatchObject({ code: "plan_stale" });
  expect([...objects.keys()].filter((key) => key.endsWith("approved"))).toEqual([]);
});
