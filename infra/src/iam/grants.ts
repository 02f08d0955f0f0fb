/**
 * The calls of Terraform's AWS provider (5.100) for each resource type of a cluster's stack. The provisioner's
 * policies are generated from this table. A new type in the stack must be added here; a test checks it. Sources: Service Authorization Reference, the provider's resource code.
 */
export interface TypeGrants {
  /** Calls that describe; most cannot be limited to an ARN. */
  readonly read: readonly string[];
  /** Calls that create one. By tag: the request must carry the product's tags. */
  readonly create: readonly string[];
  /** Calls that change, tag or delete one. By tag: it must carry the product's tags already. */
  readonly change: readonly string[];
  /**
   * How AWS can distinguish our resources: by tags (of the request, of the resource), or by the ARN patterns of
   * {@link namedArns} if the service has no tag conditions, or they lag.
   */
  readonly scope: "tag" | NamedScope;
}

export type NamedScope =
  | "alarm"
  | "autoscaling"
  | "bucket"
  | "database"
  | "log-group"
  | "role"
  | "secret"
  | "zone";

const ec2 = (
  read: readonly string[],
  create: readonly string[],
  change: readonly string[],
): TypeGrants => ({
  read: prefixed("ec2", read),
  create: prefixed("ec2", create),
  change: prefixed("ec2", change),
  scope: "tag",
});

const elb = (
  read: readonly string[],
  create: readonly string[],
  change: readonly string[],
): TypeGrants => ({
  read: prefixed("elasticloadbalancing", read),
  create: prefixed("elasticloadbalancing", create),
  change: prefixed("elasticloadbalancing", change),
  scope: "tag",
});

const database = (read: readonly string[], change: readonly string[]): TypeGrants => ({
  read: prefixed("rds", read),
  create: [],
  change: prefixed("rds", change),
  scope: "database",
});

const bucketPart = (...names: readonly string[]): TypeGrants => ({
  read: prefixed(
    "s3",
    names.map((name) => `Get${name}`),
  ),
  create: [],
  change: prefixed(
    "s3",
    names.map((name) => `Put${name}`),
  ),
  scope: "bucket",
});

export const CLUSTER_GRANTS: Readonly<Record<string, TypeGrants>> = {
  aws_vpc: ec2(
    [
      "DescribeVpcs",
      "DescribeVpcAttribute",
      "DescribeNetworkAcls",
      "DescribeRouteTables",
      "DescribeSecurityGroups",
    ],
    ["CreateVpc"],
    ["ModifyVpcAttribute", "DeleteVpc"],
  ),
  aws_default_security_group: ec2(
    ["DescribeSecurityGroups", "DescribeSecurityGroupRules"],
    [],
    ["RevokeSecurityGroupIngress", "RevokeSecurityGroupEgress"],
  ),
  aws_subnet: ec2(
    ["DescribeSubnets", "DescribeNetworkInterfaces"],
    ["CreateSubnet"],
    ["ModifySubnetAttribute", "DeleteSubnet"],
  ),
  aws_route_table: ec2(["DescribeRouteTables"], ["CreateRouteTable"], ["DeleteRouteTable"]),
  aws_route_table_association: ec2(
    ["DescribeRouteTables"],
    [],
    ["AssociateRouteTable", "DisassociateRouteTable"],
  ),
  aws_vpc_endpoint: ec2(
    ["DescribeVpcEndpoints", "DescribePrefixLists"],
    ["CreateVpcEndpoint"],
    ["ModifyVpcEndpoint", "DeleteVpcEndpoints"],
  ),
  aws_vpc_endpoint_service: ec2(
    [
      "DescribeVpcEndpointConnections",
      "DescribeVpcEndpointServiceConfigurations",
      "DescribeVpcEndpointServicePermissions",
    ],
    ["CreateVpcEndpointServiceConfiguration"],
    [
      "ModifyVpcEndpointServiceConfiguration",
      "ModifyVpcEndpointServicePermissions",
      "DeleteVpcEndpointServiceConfigurations",
      // A service cannot be deleted while it has connections.
      "RejectVpcEndpointConnections",
    ],
  ),
  aws_security_group: ec2(
    ["DescribeSecurityGroups", "DescribeNetworkInterfaces"],
    ["CreateSecurityGroup"],
    ["DeleteSecurityGroup", "RevokeSecurityGroupEgress"],
  ),
  aws_vpc_security_group_ingress_rule: ec2(
    ["DescribeSecurityGroupRules"],
    ["AuthorizeSecurityGroupIngress"],
    ["RevokeSecurityGroupIngress", "ModifySecurityGroupRules"],
  ),
  aws_vpc_security_group_egress_rule: ec2(
    ["DescribeSecurityGroupRules"],
    ["AuthorizeSecurityGroupEgress"],
    ["RevokeSecurityGroupEgress", "ModifySecurityGroupRules"],
  ),
  aws_ebs_volume: ec2(
    // EC2's own view of tags: the tagging API lags behind after a killed apply.
    ["DescribeTags", "DescribeVolumes", "DescribeVolumesModifications"],
    ["CreateVolume"],
    ["ModifyVolume", "DeleteVolume"],
  ),
  aws_launch_template: ec2(
    ["DescribeLaunchTemplates", "DescribeLaunchTemplateVersions", "GetEbsDefaultKmsKeyId"],
    ["CreateLaunchTemplate"],
    ["CreateLaunchTemplateVersion", "ModifyLaunchTemplate", "DeleteLaunchTemplate"],
  ),
  aws_autoscaling_group: {
    read: prefixed("autoscaling", [
      "DescribeAutoScalingGroups",
      "DescribeScalingActivities",
      "DescribeTags",
      "DescribeWarmPool",
    ]),
    create: [],
    change: prefixed("autoscaling", [
      "CreateAutoScalingGroup",
      "UpdateAutoScalingGroup",
      "DeleteAutoScalingGroup",
      "CreateOrUpdateTags",
      "DeleteTags",
      "EnableMetricsCollection",
      "DisableMetricsCollection",
      "AttachLoadBalancerTargetGroups",
      "DetachLoadBalancerTargetGroups",
      "SetInstanceProtection",
      "TerminateInstanceInAutoScalingGroup",
    ]),
    scope: "autoscaling",
  },
  aws_lb: elb(
    [
      "DescribeLoadBalancers",
      "DescribeLoadBalancerAttributes",
      "DescribeTags",
      "DescribeCapacityReservation",
    ],
    ["CreateLoadBalancer"],
    ["ModifyLoadBalancerAttributes", "SetSubnets", "SetSecurityGroups", "DeleteLoadBalancer"],
  ),
  aws_lb_listener: elb(
    ["DescribeListeners", "DescribeListenerAttributes", "DescribeTags"],
    ["CreateListener"],
    ["ModifyListener", "ModifyListenerAttributes", "DeleteListener"],
  ),
  aws_lb_target_group: elb(
    [
      "DescribeTargetGroups",
      "DescribeTargetGroupAttributes",
      "DescribeTargetHealth",
      "DescribeTags",
    ],
    ["CreateTargetGroup"],
    ["ModifyTargetGroup", "ModifyTargetGroupAttributes", "DeleteTargetGroup"],
  ),
  aws_kms_key: {
    read: prefixed("kms", [
      "DescribeKey",
      "GetKeyPolicy",
      "GetKeyRotationStatus",
      "ListResourceTags",
      // Of keys that others made, before a plan: see the provisioner's key-preflight.ts.
      "ListGrants",
    ]),
    create: prefixed("kms", ["CreateKey"]),
    change: prefixed("kms", [
      "EnableKeyRotation",
      "PutKeyPolicy",
      "UpdateKeyDescription",
      "ScheduleKeyDeletion",
      "CancelKeyDeletion",
      "TagResource",
      "UntagResource",
    ]),
    scope: "tag",
  },
  aws_kms_alias: {
    read: prefixed("kms", ["ListAliases"]),
    create: [],
    change: prefixed("kms", ["CreateAlias", "UpdateAlias", "DeleteAlias"]),
    scope: "tag",
  },
  aws_s3_bucket: {
    read: prefixed("s3", [
      "ListBucket",
      "ListBucketVersions",
      "ListBucketMultipartUploads",
      "ListTagsForResource",
      "GetBucketLocation",
      "GetBucketTagging",
      "GetBucketVersioning",
      "GetBucketAcl",
      "GetBucketCORS",
      "GetBucketLogging",
      "GetBucketObjectLockConfiguration",
      "GetBucketRequestPayment",
      "GetBucketWebsite",
      "GetAccelerateConfiguration",
      "GetReplicationConfiguration",
    ]),
    create: [],
    change: prefixed("s3", [
      "CreateBucket",
      "PutBucketTagging",
      "TagResource",
      "UntagResource",
      "DeleteBucket",
      "DeleteBucketPolicy",
      "DeleteObject",
      "DeleteObjectVersion",
      "AbortMultipartUpload",
    ]),
    scope: "bucket",
  },
  aws_s3_bucket_lifecycle_configuration: bucketPart("LifecycleConfiguration"),
  aws_s3_bucket_ownership_controls: bucketPart("BucketOwnershipControls"),
  aws_s3_bucket_policy: bucketPart("BucketPolicy"),
  aws_s3_bucket_public_access_block: bucketPart("BucketPublicAccessBlock"),
  aws_s3_bucket_server_side_encryption_configuration: bucketPart("EncryptionConfiguration"),
  aws_iam_role: {
    read: prefixed("iam", [
      "GetRole",
      "ListRolePolicies",
      "ListAttachedRolePolicies",
      "ListRoleTags",
    ]),
    create: [],
    change: prefixed("iam", [
      "CreateRole",
      "PutRolePolicy",
      "DeleteRolePolicy",
      // Manually attached policies; the stack attaches none.
      "DetachRolePolicy",
      "UpdateAssumeRolePolicy",
      "UpdateRole",
      "TagRole",
      "UntagRole",
      "DeleteRole",
      "PassRole",
    ]),
    scope: "role",
  },
  aws_iam_role_policy: {
    read: prefixed("iam", ["GetRolePolicy"]),
    create: [],
    change: [],
    scope: "role",
  },
  aws_iam_instance_profile: {
    read: prefixed("iam", ["GetInstanceProfile", "ListInstanceProfilesForRole"]),
    create: [],
    change: prefixed("iam", [
      "CreateInstanceProfile",
      "AddRoleToInstanceProfile",
      "RemoveRoleFromInstanceProfile",
      "TagInstanceProfile",
      "UntagInstanceProfile",
      "DeleteInstanceProfile",
    ]),
    scope: "role",
  },
  aws_secretsmanager_secret: {
    read: prefixed("secretsmanager", ["DescribeSecret", "GetResourcePolicy"]),
    create: [],
    change: prefixed("secretsmanager", [
      "CreateSecret",
      "UpdateSecret",
      "PutResourcePolicy",
      "DeleteResourcePolicy",
      "TagResource",
      "UntagResource",
      "RestoreSecret",
      "DeleteSecret",
      // The driver's own: brokers' credentials, which Terraform never has. It cannot read them.
      "PutSecretValue",
    ]),
    scope: "secret",
  },
  aws_secretsmanager_secret_version: {
    // Of a metadata database's password only: see the provisioner's policies.
    read: [],
    create: [],
    change: [],
    scope: "secret",
  },
  aws_db_subnet_group: database(
    ["DescribeDBSubnetGroups"],
    ["CreateDBSubnetGroup", "ModifyDBSubnetGroup", "DeleteDBSubnetGroup"],
  ),
  aws_db_parameter_group: database(
    ["DescribeDBParameterGroups", "DescribeDBParameters"],
    [
      "CreateDBParameterGroup",
      "ModifyDBParameterGroup",
      "ResetDBParameterGroup",
      "DeleteDBParameterGroup",
    ],
  ),
  aws_db_instance: database(
    ["DescribeDBInstances", "ListTagsForResource"],
    [
      "CreateDBInstance",
      "ModifyDBInstance",
      "RebootDBInstance",
      // The last snapshot before a deletion.
      "CreateDBSnapshot",
      "DeleteDBInstance",
      "AddTagsToResource",
      "RemoveTagsFromResource",
    ],
  ),
  aws_cloudwatch_log_group: {
    read: prefixed("logs", ["ListTagsForResource"]),
    create: [],
    change: prefixed("logs", [
      "CreateLogGroup",
      "PutRetentionPolicy",
      "DeleteRetentionPolicy",
      "AssociateKmsKey",
      "DisassociateKmsKey",
      "TagResource",
      "UntagResource",
      "DeleteLogGroup",
    ]),
    scope: "log-group",
  },
  aws_cloudwatch_metric_alarm: {
    read: prefixed("cloudwatch", ["DescribeAlarms", "ListTagsForResource"]),
    create: [],
    change: prefixed("cloudwatch", [
      "PutMetricAlarm",
      "DeleteAlarms",
      "TagResource",
      "UntagResource",
    ]),
    scope: "alarm",
  },
  aws_route53_zone: {
    read: prefixed("route53", ["GetHostedZone", "ListTagsForResource"]),
    create: [],
    change: prefixed("route53", [
      "UpdateHostedZoneComment",
      "AssociateVPCWithHostedZone",
      "DisassociateVPCFromHostedZone",
      "ChangeTagsForResource",
      "DeleteHostedZone",
    ]),
    scope: "zone",
  },
  aws_route53_record: {
    read: prefixed("route53", ["ListResourceRecordSets"]),
    create: [],
    change: [],
    scope: "zone",
  },
};

function prefixed(service: string, names: readonly string[]): string[] {
  return names.map((name) => `${service}:${name}`);
}
