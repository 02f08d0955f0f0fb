import { AutoscalingGroup } from "@cdktn/provider-aws/lib/autoscaling-group/index.js";
import { LaunchTemplate } from "@cdktn/provider-aws/lib/launch-template/index.js";
import { Token } from "cdktn";
import { Construct } from "constructs";
import type { Tags } from "../../tagging.ts";
import { ADDRESS_TAG } from "../../tagging.ts";

export interface BrokerSlotProps {
  readonly name: string;
  readonly instanceType: string;
  readonly subnetId: string;
  readonly securityGroupId: string;
  readonly instanceProfileArn: string;
  readonly targetGroupArns: readonly string[];
  /** The script that an instance runs at every boot. */
  readonly userData: string;
  /** Put on the group, its instances, their root volumes and interfaces. */
  readonly tags: Tags;
  readonly running: boolean;
}

/** AWS keeps the newest Amazon Linux 2023 under this name, so no image id is written here. */
const IMAGE = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64";
const ROOT_VOLUME_GIB = 8;
/** Attaching the volume, fetching the broker and recovering the log take less. */
const GRACE_SECONDS = 600;

/** Exactly one broker: a group of one instance, which is replaced where it fails. */
export class BrokerSlot extends Construct {
  readonly groupName: string;

  constructor(scope: Construct, id: string, props: BrokerSlotProps) {
    super(scope, id);
    const instanceTags = { ...props.tags, Name: props.name };
    const template = new LaunchTemplate(this, "template", {
      name: props.name,
      imageId: IMAGE,
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
          // The account's own EBS key: nothing of the tenant lies here, and a key of the cluster
          // would have to be opened to the role that every Auto Scaling group shares.
          ebs: {
            encrypted: "true",
            volumeType: "gp3",
            volumeSize: ROOT_VOLUME_GIB,
            deleteOnTermination: "true",
          },
        },
      ],
      tagSpecifications: ["instance", "volume", "network-interface"].map((resourceType) => ({
        resourceType,
        tags: instanceTags,
      })),
      userData: Buffer.from(props.userData).toString("base64"),
    });
    const size = props.running ? 1 : 0;
    const group = new AutoscalingGroup(this, "group", {
      name: props.name,
      minSize: size,
      maxSize: size,
      desiredCapacity: size,
      vpcZoneIdentifier: [props.subnetId],
      launchTemplate: { id: template.id, version: Token.asString(template.latestVersion) },
      targetGroupArns: [...props.targetGroupArns],
      healthCheckType: "EC2",
      healthCheckGracePeriod: GRACE_SECONDS,
      // The control plane waits for healthy brokers itself, and says what it waits for.
      waitForCapacityTimeout: "0",
      enabledMetrics: ["GroupInServiceInstances", "GroupDesiredCapacity"],
      tag: Object.entries(instanceTags).map(([key, value]) => ({
        key,
        value,
        propagateAtLaunch: true,
      })),
    });
    group.addOverride("tag", [
      ...Object.entries(instanceTags).map(([key, value]) => ({
        key,
        value,
        propagate_at_launch: true,
      })),
      {
        key: ADDRESS_TAG,
        value: `aws_autoscaling_group.${group.friendlyUniqueId}`,
        propagate_at_launch: false,
      },
    ]);
    this.groupName = props.name;
  }
}
