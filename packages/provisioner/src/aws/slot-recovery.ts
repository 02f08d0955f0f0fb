/**
 * The recovery of a slot whose volume was lost. The slot's instance finds a blank volume beside a bucket
 * that knows its node. It writes what a recovery would bring back to `…/recovery/<volume>/report`,
 * waits for `approved` beside that, and then formats the volume and recovers (see the slot's user
 * data). This program only reads the report and writes the approval.
 */
import {
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import type { ChangePlan } from "../change-plan.ts";
import { ProvisionError } from "../cluster-driver.ts";
import { recoveryPlan } from "../recovery-plan.ts";

/** A cluster has one broker, of this node id, until brokers share their metadata. */
const NODE = 0;
const PREFIX = `meta/nodes/${NODE}/recovery/`;
/** A report names each partition with missing records, about 200 bytes each. */
const REPORT_BYTES_MAX = 16 * 1024 * 1024;

/** What a slot has reported of the volume that it has now. */
interface Report {
  readonly volume: string;
  readonly approved: boolean;
}

export class SlotRecovery {
  readonly #s3: S3Client;
  readonly #bucket: string;

  constructor(s3: S3Client, bucket: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
  }

  /** Throws `ProvisionError` `not_recoverable` where no slot waits, `plan_failed`. */
  async plan(): Promise<ChangePlan> {
    const { volume, approved } = (await this.#newestReport()) ?? nothingReported();
    if (approved) {
      const message = `the recovery of the volume ${volume} is approved already: see the slot's log`;
      throw new ProvisionError("not_recoverable", message);
    }
    return await this.#planOf(volume);
  }

  /** Approves the plan; again does nothing. Throws `ProvisionError` `plan_stale`, `plan_failed`. */
  async apply(planId: string): Promise<void> {
    const { volume } = (await this.#newestReport()) ?? nothingReported();
    if ((await this.#planOf(volume)).id !== planId) {
      throw new ProvisionError("plan_stale", "the slot has reported something else since the plan");
    }
    await this.#s3.send(
      new PutObjectCommand({ Bucket: this.#bucket, Key: keyOf(volume, "approved"), Body: planId }),
    );
  }

  /** The volume that waits for an approval; undefined where none does. */
  async lostVolume(): Promise<string | undefined> {
    const newest = await this.#newestReport();
    return newest?.approved === false ? newest.volume : undefined;
  }

  /** Of the volume that the slot has now: an older one is gone for good. */
  async #newestReport(): Promise<Report | undefined> {
    // One page of 1,000 objects: each lost volume leaves two.
    const page = await this.#s3.send(
      new ListObjectsV2Command({ Bucket: this.#bucket, Prefix: PREFIX }),
    );
    const objects = page.Contents ?? [];
    const [newest] = objects
      .filter(({ Key }) => Key?.endsWith("/report"))
      .toSorted((a, b) => Number(b.LastModified) - Number(a.LastModified));
    if (newest?.Key === undefined) return undefined;
    const volume = newest.Key.slice(PREFIX.length, -"/report".length);
    const approved = objects.some(({ Key }) => Key === keyOf(volume, "approved"));
    return { volume, approved };
  }

  async #planOf(volume: string): Promise<ChangePlan> {
    const command = new GetObjectCommand({ Bucket: this.#bucket, Key: keyOf(volume, "report") });
    const { Body, ContentLength = 0 } = await this.#s3.send(command);
    if (ContentLength > REPORT_BYTES_MAX) {
      const message = `the slot's report has ${ContentLength} bytes, at most ${REPORT_BYTES_MAX} are read`;
      throw new ProvisionError("plan_failed", message);
    }
    return recoveryPlan((await Body?.transformToString()) ?? "");
  }
}

function nothingReported(): never {
  const message =
    "the slot has reported no lost volume: it does so within a minute of its start, and its log " +
    "says what else keeps its broker from starting";
  throw new ProvisionError("not_recoverable", message);
}

function keyOf(volume: string, name: "report" | "approved"): string {
  return `${PREFIX}${volume}/${name}`;
}
