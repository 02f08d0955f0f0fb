import { EbsVolume } from "@cdktn/provider-aws/lib/ebs-volume/index.js";
import { Construct } from "constructs";

export interface WalVolumeProps {
  readonly name: string;
  readonly zone: string;
  readonly type: "gp3" | "io2";
  readonly sizeGib: number;
  readonly iops: number;
  /** MiB/s; null where the type has no such setting. */
  readonly throughputMibps: number | null;
  readonly kmsKeyArn: string;
  /** Tags that the slot's instance finds its volume by. */
  readonly tags: Readonly<Record<string, string>>;
  /** False only in the stack that is destroyed next. */
  readonly protected: boolean;
}

/**
 * The volume below one slot's write-ahead log. It outlives every instance, and no change of the
 * stack can destroy it: what was acknowledged and not yet uploaded is nowhere else.
 */
export class WalVolume extends Construct {
  readonly id: string;

  constructor(scope: Construct, id: string, props: WalVolumeProps) {
    super(scope, id);
    const volume = new EbsVolume(this, "volume", {
      availabilityZone: props.zone,
      type: props.type,
      size: props.sizeGib,
      iops: props.iops,
      ...(props.throughputMibps === null ? {} : { throughput: props.throughputMibps }),
      encrypted: true,
      kmsKeyId: props.kmsKeyArn,
      tags: { Name: props.name, ...props.tags },
      lifecycle: { preventDestroy: props.protected },
    });
    this.id = volume.id;
  }
}
