import { EbsVolume } from "@cdktn/provider-aws/lib/ebs-volume/index.js";
import type { WalVolume as WalVolumeShape } from "@millrace/domain";
import { Construct } from "constructs";

export interface WalVolumeProps {
  readonly name: string;
  readonly zone: string;
  readonly shape: WalVolumeShape;
  /**
   * Whether instances of the same zone may attach it at the same time; for io2 only. Terraform replaces a volume to change it,
   * so it follows from what never changes.
   */
  readonly multiAttach?: boolean;
  readonly kmsKeyArn: string;
  /** In addition to the stack's: the slot's instance finds its volume by them. */
  readonly tags: Readonly<Record<string, string>>;
  /** False only in the stack that is destroyed next. */
  readonly protected: boolean;
}

/**
 * The volume of one slot's write-ahead log. It outlives every instance, and no change of the stack can destroy it:
 * records that were acknowledged and not uploaded yet exist only there.
 */
export class WalVolume extends Construct {
  readonly id: string;

  constructor(scope: Construct, id: string, props: WalVolumeProps) {
    super(scope, id);
    const { type, sizeGib, iops, throughputMibps } = props.shape;
    const volume = new EbsVolume(this, "volume", {
      availabilityZone: props.zone,
      type,
      size: sizeGib,
      iops,
      ...(throughputMibps === undefined ? {} : { throughput: throughputMibps }),
      ...(props.multiAttach ? { multiAttachEnabled: true } : {}),
      encrypted: true,
      kmsKeyId: props.kmsKeyArn,
      tags: { Name: props.name, ...props.tags },
      lifecycle: { preventDestroy: props.protected },
    });
    this.id = volume.id;
  }
}
