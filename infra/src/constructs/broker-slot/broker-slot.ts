import { AutoscalingGroup } from "@cdktn/provider-aws/lib/autoscaling-group/index.js";
import { LaunchTemplate } from "@cdktn/provider-aws/lib/launch-template/index.js";
import { ROOT_VOLUME_GIB } from "@millrace/domain";
import { TerraformResource, Token } from "cdktn";
import { Construct } from "constructs";
import { ADDRESS_TAG, type Tags } from "../../tagging.ts";

export interface BrokerSlotProps {
  /** Of the group and its template. */
  readonly name: string;
  readonly instanceType: string;
  /** An AMI's id, not a parameter of Systems Manager: a replacement at night is to be what it replaces. */
  readonly amiId: string;
  /** In the zone of the slot's volume. */
  readonly subnetId: string;
  readonly securityGroupId: string;
  readonly instanceProfileArn: string;
  readonly targetGroupArns: readonly string[];
  /** The script that an instance runs at its first boot. */
  readonly userData: string;
  /** Put on the group, its instances, their system volumes and interfaces. */
  readonly tags: Tags;
  /** False: no instance. */
  readonly running: boolean;
  /**
   * Resources that an instance needs but the group does not refer to: created before the group and deleted after
   * it, so that a draining broker still reaches its bucket.
   */
  readonly needs: readonly Construct[];
}

/** Attaching the volume, fetching the broker and recovering the log take less. */
const GRACE_SECONDS = 600;

/** Exactly one broker: a group of one instance, which is replaced if it fails. */
export class BrokerSlot extends Construct {
  constructor(scope: Construct, id: string, props: BrokerSlotProps) {
    super(scope, id);
    const tags = { ...props.tags, Name: props.name };
    const template = launchTemplate(this, props, tags);
    const size = props.running ? 1 : 0;
    const group = new AutoscalingGroup(this, "group", {
      name: props.name,
      minSize: size,
      maxSize: size,
      desiredCapacity: size,
      vpcZoneIdentifier: [props.subnetId],
      launchTemplate: { id: template.id, version: Token.asString(template.latestVersion) },
      targetGroupArns: [...props.targetGroupArns],
      // Not the load balancer's check: a broker that recovers its log is not ready for a while, and a new instance
      // would only start over.
      healthCheckType: "EC2",
      healthCheckGracePeriod: GRACE_SECONDS,
      // The control plane waits for healthy brokers itself, and reports what it waits for.
      waitForCapacityTimeout: "0",
      enabledMetrics: ["GroupDesiredCapacity", "GroupInServiceInstances"],
      dependsOn: props.needs.flatMap((need) =>
        need.node.findAll().filter((part) => TerraformResource.isTerraformResource(part)),
      ),
    });
    const address = `aws_autoscaling_group.${group.friendlyUniqueId}`;
    group.putTag([
      ...Object.entries(tags).map(([key, value]) => ({ key, value, propagateAtLaunch: true })),
      { key: ADDRESS_TAG, value: address, propagateAtLaunch: false },
    ]);
  }
}

function launchTemplate(slot: BrokerSlot, props: BrokerSlotProps, tags: Tags): LaunchTemplate {
  return new LaunchTemplate(slot, "template", {
    name: props.name,
    imageId: props.amiId,
    instanceType: props.instanceType,
    ebsOptimized: "true",
    updateDefaultVersion: true,
    iamInstanceProfile: { arn: props.instanceProfileArn },
    vpcSecurityGroupIds: [props.securityGroupId],
    metadataOptions: {
      httpEndpoint: "enabled",
      httpTokens: "required",
      httpPutResponseHopLimit: 1,
      instanceMetadataTags: "disabled",
    },
    monitoring: { enabled: true },
    blockDeviceMappings: [
      {
        deviceName: "/dev/xvda",
        // The account's EBS key: the disk has no tenant data, and the cluster's key would have to be opened to the
        // role that all Auto Scaling groups share.
        ebs: {
          encrypted: "true",
          volumeType: "gp3",
          volumeSize: ROOT_VOLUME_GIB,
          deleteOnTermination: "true",
        },
      },
    ],
    tagSpecifications: ["instance", "network-interface", "volume"].map((resourceType) => ({
      resourceType,
      tags: { ...tags },
    })),
    userData: Buffer.from(props.userData).toString("base64"),
  });
}
