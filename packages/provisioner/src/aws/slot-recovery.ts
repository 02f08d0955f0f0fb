/**
 * The recovery of a slot whose metadata was lost, alone or with its volume. The slot's instance writes what a
 * recovery would bring back to `…/recovery/<volume>/report`, or `…/recovery/<volume>/<loss>/report` where the
 * volume is intact, waits for `approved` beside that, and then recovers (see the slot's user data). This
 * program only reads the report and writes the approval.
 */
import { DescribeVolumesCommand } from "@aws-sdk/client-ec2";
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from "@aws-sdk/client-s3";
import { slotTags } from "@millrace/infra";
import type { ChangePlan } from "../change-plan.ts";
import { ProvisionError } from "../cluster-driver.ts";
import { recoveryPlan, volumeOfPlan } from "../recovery-plan.ts";
import type { AwsClients } from "./aws-account.ts";

/** A cluster has one broker, of this node id, until brokers share their metadata. */
const NODE = 0;
const PREFIX = `meta/nodes/${NODE}/recovery/`;
/** A report names each partition with missing records, about 200 bytes each. */
const REPORT_BYTES_MAX = 16 * 1024 * 1024;

/** The newest that a slot has reported of the volume that it has now. */
interface Report {
  /** Of its folder in the bucket. */
  readonly prefix: string;
  readonly approved: boolean;
}

export class SlotRecovery {
  readonly #clients: Pick<AwsClients, "ec2" | "s3">;
  readonly #clusterId: string;
  readonly #bucket: string;

  constructor(clients: Pick<AwsClients, "ec2" | "s3">, clusterId: string, bucket: string) {
    this.#clients = clients;
    this.#clusterId = clusterId;
    this.#bucket = bucket;
  }

  /** Throws `ProvisionError` `not_recoverable` where no slot waits, `plan_failed`. */
  async plan(): Promise<ChangePlan> {
    const volume = await this.#currentVolume();
    const { prefix, approved } = (await this.#newestReport(volume)) ?? nothingReported(volume);
    if (approved) {
      const message = `the recovery of the volume ${volume} is approved already: see the slot's log`;
      throw new ProvisionError("not_recoverable", message);
    }
    return await this.#planOf(volume, prefix);
  }

  /**
   * Approves the plan; repeating it does nothing. Throws `ProvisionError` `plan_stale` where the slot has
   * another volume or another loss since the plan, `not_recoverable`, `plan_failed`.
   */
  async apply(planId: string): Promise<void> {
    const volume = await this.#currentVolume();
    const approved = volumeOfPlan(planId);
    if (approved !== volume) {
      const message =
        `the recovery was approved for the volume ${approved}, but the slot now has ${volume}: ` +
        `nothing was recovered; review and approve the plan for ${volume}`;
      throw new ProvisionError("plan_stale", message);
    }
    const { prefix } = (await this.#newestReport(volume)) ?? nothingReported(volume);
    if ((await this.#planOf(volume, prefix)).id !== planId) {
      const message = `the slot has reported another loss of ${volume} since the plan: review and approve it`;
      throw new ProvisionError("plan_stale", message);
    }
    const Key = `${prefix}approved`;
    await this.#clients.s3.send(new PutObjectCommand({ Bucket: this.#bucket, Key, Body: planId }));
  }

  /** The slot's volume where it waits for an approval; undefined where it does not. */
  async waitingVolume(): Promise<string | undefined> {
    const volume = await this.#currentVolume();
    return (await this.#newestReport(volume))?.approved === false ? volume : undefined;
  }

  /** Found as the slot's instance finds it. Throws `not_recoverable` unless there is exactly one. */
  async #currentVolume(): Promise<string> {
    const tags = Object.entries(slotTags(this.#clusterId, NODE));
    const Filters = [
      ...tags.map(([tag, value]) => ({ Name: `tag:${tag}`, Values: [value] })),
      { Name: "status", Values: ["creating", "available", "in-use"] },
    ];
    const { Volumes = [] } = await this.#clients.ec2.send(new DescribeVolumesCommand({ Filters }));
    const [volume] = Volumes;
    if (volume?.VolumeId !== undefined && Volumes.length === 1) return volume.VolumeId;
    const message =
      `${Volumes.length} volumes carry the tags of the cluster's slot, and exactly one must: ` +
      "reconcile the cluster to create a missing one, or remove the tags of the others";
    throw new ProvisionError("not_recoverable", message);
  }

  /** A report about another volume is stale, however new it is. */
  async #newestReport(volume: string): Promise<Report | undefined> {
    // One page of 1,000 objects: each loss leaves two.
    const page = await this.#clients.s3.send(
      new ListObjectsV2Command({ Bucket: this.#bucket, Prefix: `${PREFIX}${volume}/` }),
    );
    const objects = page.Contents ?? [];
    const [newest] = objects
      .filter(({ Key }) => Key?.endsWith("/report"))
      .toSorted((a, b) => Number(b.LastModified) - Number(a.LastModified));
    if (newest?.Key === undefined) return undefined;
    const prefix = newest.Key.slice(0, -"report".length);
    return { prefix, approved: objects.some(({ Key }) => Key === `${prefix}approved`) };
  }

  async #planOf(volume: string, prefix: string): Promise<ChangePlan> {
    const command = new GetObjectCommand({ Bucket: this.#bucket, Key: `${prefix}report` });
    const { Body, ContentLength = 0 } = await this.#clients.s3.send(command);
    if (ContentLength > REPORT_BYTES_MAX) {
      const message = `the slot's report has ${ContentLength} bytes, at most ${REPORT_BYTES_MAX} are read`;
      throw new ProvisionError("plan_failed", message);
    }
    return recoveryPlan((await Body?.transformToString()) ?? "", volume);
  }
}

function nothingReported(volume: string): never {
  const message =
    `the slot has reported no loss of its volume ${volume}: it does so within a minute of its start, and ` +
    "its log says what else keeps its broker from starting";
  throw new ProvisionError("not_recoverable", message);
}
