/**
 * The policies of the role in a tenant's account: it may create, change and delete Millrace's clusters, and
 * nothing that Millrace did not create. AWS limits a managed policy to 6,144 characters, so there is one per
 * concern.
 */
import {
  ANY_CLUSTER_PREFIX,
  CLUSTER_TAG,
  MANAGED,
  MANAGED_TAG,
  type PolicyDocument,
  policyDocument,
  type Statement,
  TENANT_TAG,
} from "./document.ts";
import { actions, namedArns } from "./granted.ts";
import type { NamedScope } from "./grants.ts";
import { metadataStatements } from "./metadata-statements.ts";

export interface ProvisionerProps {
  /** The tenant's account, twelve digits. */
  readonly accountId: string;
  /** The policy that every role of a cluster must have as its boundary. */
  readonly permissionsBoundaryArn: string;
  /** Domain of the gateways' names: each cluster's network has a zone of its own below it. */
  readonly linkDomain: string;
}

export interface NamedPolicy {
  readonly name: string;
  readonly document: PolicyDocument;
}

/** AWS's limit on a managed policy, in characters; white space is not counted. */
export const MANAGED_POLICY_CHARACTERS_MAX = 6_144;

const MANAGED_REQUEST = { StringEquals: { [`aws:RequestTag/${MANAGED_TAG}`]: MANAGED } };
const MANAGED_RESOURCE = { StringEquals: { [`aws:ResourceTag/${MANAGED_TAG}`]: MANAGED } };
/** A tenant's: which one's, the session says. */
const OF_A_TENANT = { Null: { [`aws:ResourceTag/${TENANT_TAG}`]: "false" } };

/** The managed policies of the provisioner's role. The same props always give the same text. */
export function provisionerPolicies(props: ProvisionerProps): NamedPolicy[] {
  return [
    {
      name: "network",
      document: policyDocument(
        ...byTag("ec2", `arn:aws:ec2:*:${props.accountId}:*/*`),
        ...ec2Beside(props),
      ),
    },
    { name: "compute", document: policyDocument(...compute(props)) },
    { name: "storage", document: policyDocument(...storage(props)) },
    { name: "metadata", document: policyDocument(...metadataStatements(props.accountId)) },
    { name: "identity", document: policyDocument(...identity(props)) },
  ];
}

const ALIAS_CHANGES = ["kms:CreateAlias", "kms:DeleteAlias", "kms:UpdateAlias"];

/** The few describing calls that AWS authorizes by ARN. */
const READ_BY_ARN = new Set([
  "ec2:DescribeVpcAttribute",
  "ec2:DescribeVpcEndpointServicePermissions",
]);

/** Describing actions that cannot be limited to an ARN. */
const LISTING = /^(ec2|autoscaling|elasticloadbalancing):Describe/;

/**
 * The boundary of the provisioner's role: the same actions in the same account, so that a policy
 * attached to the role by mistake grants nothing more.
 */
export function provisionerBoundary(props: ProvisionerProps): PolicyDocument {
  const { accountId } = props;
  const all = provisionerPolicies(props).flatMap(({ document }) =>
    document.Statement.flatMap(({ Action }) => [Action ?? []].flat()),
  );
  const once = [...new Set(all.map(shortened))].sort();
  const isListing = (action: string) => LISTING.test(action) && !READ_BY_ARN.has(action);
  const changing = once.filter((action) => !isListing(action) && !WITHOUT_ARN.includes(action));
  return policyDocument(
    {
      Sid: "Listings",
      Effect: "Allow",
      Action: once.filter(isListing),
      Resource: "*",
    },
    {
      Sid: "InThisAccount",
      Effect: "Allow",
      Action: changing,
      Resource: [
        `arn:aws:*:*:${accountId}:*`,
        `arn:aws:s3:::${ANY_CLUSTER_PREFIX}-data-*`,
        "arn:aws:route53:::*",
        "arn:aws:ec2:*::*",
      ],
    },
    {
      Sid: "MakeKeysAndZones",
      Effect: "Allow",
      Action: ["kms:CreateKey", "kms:TagResource"],
      Resource: "*",
      Condition: MANAGED_REQUEST,
    },
    {
      Sid: "WithoutArn",
      Effect: "Allow",
      Action: WITHOUT_ARN.filter((action) => action !== "kms:CreateKey"),
      Resource: "*",
    },
  );
}

/** Whole families of descriptions, which a boundary may name as such: it has to stay short. */
const FAMILIES = [
  "autoscaling:Describe*",
  "elasticloadbalancing:Describe*",
  "rds:*DB*",
  "rds:*Tags*",
  "s3:GetBucket*",
];

function shortened(action: string): string {
  const isOf = (family: string) => new RegExp(`^${family.replaceAll("*", ".*")}$`).test(action);
  return FAMILIES.find(isOf) ?? action;
}

/** The resource type in ARNs that each call creates. */
const MADE: Readonly<Record<string, string>> = {
  "ec2:AuthorizeSecurityGroupEgress": "security-group-rule",
  "ec2:AuthorizeSecurityGroupIngress": "security-group-rule",
  "ec2:CreateLaunchTemplate": "launch-template",
  "ec2:CreateRouteTable": "route-table",
  "ec2:CreateSecurityGroup": "security-group",
  "ec2:CreateSubnet": "subnet",
  "ec2:CreateVolume": "volume",
  "ec2:CreateVpc": "vpc",
  "ec2:CreateVpcEndpoint": "vpc-endpoint",
  "ec2:CreateVpcEndpointServiceConfiguration": "vpc-endpoint-service",
  "elasticloadbalancing:CreateListener": "listener",
  "elasticloadbalancing:CreateLoadBalancer": "loadbalancer",
  "elasticloadbalancing:CreateTargetGroup": "targetgroup",
};

/** Actions, besides describing ones, that AWS cannot limit to an ARN. */
const WITHOUT_ARN = [
  "ec2:GetEbsDefaultKmsKeyId",
  "kms:CreateKey",
  "kms:ListAliases",
  "logs:DescribeLogGroups",
  "route53:CreateHostedZone",
  "route53:ListHostedZonesByName",
  "sts:GetCallerIdentity",
  "tag:GetResources",
];

function byTag(service: string, own: string): Statement[] {
  const reads = actions(service, "read");
  const narrow = reads.filter((action) => READ_BY_ARN.has(action));
  const listings = reads.filter((action) => !READ_BY_ARN.has(action));
  return [
    { Effect: "Allow", Action: listings, Resource: "*" },
    ...(narrow.length === 0 ? [] : [{ Effect: "Allow" as const, Action: narrow, Resource: own }]),
    ...actions(service, "create").map(
      (action): Statement => ({
        Effect: "Allow",
        Action: action,
        // Only the created resource, not its parent: tags of the request grant nothing on that.
        Resource: own.replace(/[*][/][*]$/, `${MADE[action]}/*`),
        Condition: MANAGED_REQUEST,
      }),
    ),
    {
      // The parent of the created resource (the VPC of a subnet) must be ours as well.
      Effect: "Allow",
      Action: [...actions(service, "create"), ...actions(service, "change")].sort(),
      Resource: own,
      Condition: MANAGED_RESOURCE,
    },
  ];
}

function byName(service: string, scope: NamedScope, accountId: string): Statement {
  return {
    Effect: "Allow",
    Action: [...actions(service, "read"), ...actions(service, "change")].sort(),
    Resource: namedArns(scope, accountId),
  };
}

function ec2Beside({ accountId }: ProvisionerProps): Statement[] {
  const own = (type: string) => `arn:aws:ec2:*:${accountId}:${type}/*`;
  return [
    {
      // Tags are set at creation, or on our own resources: tagging cannot take over a foreign volume.
      Sid: "TagAtCreation",
      Effect: "Allow",
      Action: "ec2:CreateTags",
      Resource: own("*"),
      Condition: { ...MANAGED_REQUEST, Null: { "ec2:CreateAction": "false" } },
    },
    {
      Sid: "TagOurs",
      Effect: "Allow",
      Action: ["ec2:CreateTags", "ec2:DeleteTags"],
      Resource: own("*"),
      Condition: MANAGED_RESOURCE,
    },
    {
      // The group that AWS makes with each VPC has no tags, and is emptied once it has ours. AWS
      // offers nothing to tell it from another group without tags, so those could be taken, and
      // their rules with them: an account of its own for clusters has no other groups.
      Sid: "TagDefaultGroups",
      Effect: "Allow",
      Action: "ec2:CreateTags",
      Resource: own("security-group"),
      Condition: {
        ...MANAGED_REQUEST,
        Null: {
          [`aws:ResourceTag/${MANAGED_TAG}`]: "true",
          [`aws:ResourceTag/${CLUSTER_TAG}`]: "true",
        },
      },
    },
    {
      // A VPC that the tenant provides is used, never changed. Its owner's tag permits that: a VPC's id alone
      // could be any VPC, including the control plane's.
      Sid: "UseWhatTheTenantBrought",
      Effect: "Allow",
      Action: ["ec2:CreateSecurityGroup", "ec2:CreateVpcEndpoint"],
      Resource: [own("vpc"), own("subnet"), own("route-table")],
      Condition: OF_A_TENANT,
    },
  ];
}

function compute({ accountId }: ProvisionerProps): Statement[] {
  const own = (type: string) => `arn:aws:ec2:*:${accountId}:${type}/*`;
  const balancers = `arn:aws:elasticloadbalancing:*:${accountId}:*/*`;
  return [
    ...byTag("elasticloadbalancing", balancers),
    {
      Sid: "TagBalancersAtCreation",
      Effect: "Allow",
      Action: "elasticloadbalancing:AddTags",
      Resource: balancers,
      Condition: { ...MANAGED_REQUEST, Null: { "elasticloadbalancing:CreateAction": "false" } },
    },
    {
      Sid: "TagOurBalancers",
      Effect: "Allow",
      Action: ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"],
      Resource: balancers,
      Condition: MANAGED_RESOURCE,
    },
    { Effect: "Allow", Action: actions("autoscaling", "read"), Resource: "*" },
    {
      Effect: "Allow",
      Action: actions("autoscaling", "change"),
      Resource: namedArns("autoscaling", accountId),
    },
    {
      // Creating an Auto Scaling group requires the permission to start its instances.
      Sid: "StartInstances",
      Effect: "Allow",
      Action: "ec2:RunInstances",
      Resource: [own("instance"), own("volume"), own("network-interface")],
      Condition: MANAGED_REQUEST,
    },
    {
      Sid: "StartInstancesFrom",
      Effect: "Allow",
      Action: "ec2:RunInstances",
      Resource: ["arn:aws:ec2:*::image/*", "arn:aws:ec2:*::snapshot/*"],
    },
    {
      Sid: "StartInstancesIn",
      Effect: "Allow",
      Action: "ec2:RunInstances",
      Resource: own("subnet"),
      Condition: OF_A_TENANT,
    },
    {
      Sid: "StartInstancesOfOurs",
      Effect: "Allow",
      Action: "ec2:RunInstances",
      Resource: [own("launch-template"), own("security-group")],
      Condition: MANAGED_RESOURCE,
    },
    { ...byName("cloudwatch", "alarm", accountId), Sid: "Alarms" },
    { ...byName("logs", "log-group", accountId), Sid: "Logs" },
    {
      Sid: "Listings",
      Effect: "Allow",
      Action: ["logs:DescribeLogGroups", "tag:GetResources"],
      Resource: "*",
    },
    {
      Sid: "FindAlarms",
      Effect: "Allow",
      Action: "cloudwatch:DescribeAlarms",
      Resource: `arn:aws:cloudwatch:*:${accountId}:alarm:*`,
    },
  ];
}

function storage({ accountId }: ProvisionerProps): Statement[] {
  const keys = `arn:aws:kms:*:${accountId}:key/*`;
  return [
    { ...byName("s3", "bucket", accountId), Sid: "DataBuckets" },
    {
      // The report of a slot that lost its metadata, and the approval that it waits for. No records.
      Sid: "ApproveRecoveries",
      Effect: "Allow",
      Action: ["s3:GetObject", "s3:PutObject"],
      Resource: `arn:aws:s3:::${ANY_CLUSTER_PREFIX}-data-*/meta/nodes/*/recovery/*`,
    },
    { ...byName("secretsmanager", "secret", accountId), Sid: "Secrets" },
    {
      Sid: "MakeKeys",
      Effect: "Allow",
      Action: ["kms:CreateKey", "kms:TagResource"],
      Resource: "*",
      // KMS requires the right to tag before the key exists, and has no condition for "at creation".
      Condition: {
        ...MANAGED_REQUEST,
        Null: {
          [`aws:ResourceTag/${MANAGED_TAG}`]: "true",
          [`aws:ResourceTag/${CLUSTER_TAG}`]: "true",
        },
      },
    },
    {
      Sid: "OurKeys",
      Effect: "Allow",
      Action: actions("kms", "change"),
      Resource: keys,
      Condition: MANAGED_RESOURCE,
    },
    {
      // An alias is authorized together with the key that it names, which must be ours.
      Sid: "OurAliases",
      Effect: "Allow",
      Action: ALIAS_CHANGES,
      Resource: `arn:aws:kms:*:${accountId}:alias/${ANY_CLUSTER_PREFIX}*`,
    },
    {
      Sid: "ReadKeys",
      Effect: "Allow",
      Action: actions("kms", "read").filter((action) => action !== "kms:ListAliases"),
      Resource: keys,
    },
    { Sid: "FindAliases", Effect: "Allow", Action: "kms:ListAliases", Resource: "*" },
    {
      // Volumes, secrets and buckets are encrypted by their services, in the caller's name.
      Sid: "UseKeysThroughServices",
      Effect: "Allow",
      Action: ["kms:Decrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext"],
      Resource: keys,
      Condition: {
        StringLike: {
          "kms:ViaService": [
            "ec2.*.amazonaws.com",
            "rds.*.amazonaws.com",
            "s3.*.amazonaws.com",
            "secretsmanager.*.amazonaws.com",
          ],
        },
      },
    },
    {
      Sid: "GrantKeysToServices",
      Effect: "Allow",
      Action: "kms:CreateGrant",
      Resource: keys,
      Condition: { Bool: { "kms:GrantIsForAWSResource": "true" } },
    },
  ];
}

function identity(props: ProvisionerProps): Statement[] {
  const { accountId, permissionsBoundaryArn, linkDomain } = props;
  const roles = `arn:aws:iam::${accountId}:role/${ANY_CLUSTER_PREFIX}-*`;
  const bounded = ["iam:CreateRole", "iam:PutRolePolicy"];
  const all = actions("iam", "change").filter(
    (action) => ![...bounded, "iam:PassRole"].includes(action),
  );
  const zones = namedArns("zone", accountId);
  return [
    {
      Sid: "RolesAndProfiles",
      Effect: "Allow",
      Action: [...actions("iam", "read"), ...all].sort(),
      Resource: namedArns("role", accountId),
    },
    {
      // A role created without the boundary could have any rights.
      Sid: "RolesInsideTheBoundary",
      Effect: "Allow",
      Action: bounded,
      Resource: roles,
      Condition: { StringEquals: { "iam:PermissionsBoundary": permissionsBoundaryArn } },
    },
    {
      Sid: "GiveRolesToInstances",
      Effect: "Allow",
      Action: "iam:PassRole",
      Resource: roles,
      Condition: { StringEquals: { "iam:PassedToService": "ec2.amazonaws.com" } },
    },
    {
      Sid: "ServiceLinkedRoles",
      Effect: "Allow",
      Action: "iam:CreateServiceLinkedRole",
      Resource: `arn:aws:iam::${accountId}:role/aws-service-role/*`,
      Condition: {
        StringEquals: {
          "iam:AWSServiceName": [
            "autoscaling.amazonaws.com",
            "elasticloadbalancing.amazonaws.com",
            "rds.amazonaws.com",
          ],
        },
      },
    },
    {
      // Route 53 knows no conditions on tags. Records are bound by their names, and a zone that
      // has records other than its own cannot be deleted: so no foreign zone can be emptied.
      Sid: "Zones",
      Effect: "Allow",
      Action: [...actions("route53", "read"), ...actions("route53", "change")].sort(),
      Resource: zones,
    },
    {
      Sid: "Records",
      Effect: "Allow",
      Action: "route53:ChangeResourceRecordSets",
      Resource: zones,
      Condition: {
        "ForAllValues:StringLike": {
          "route53:ChangeResourceRecordSetsNormalizedRecordNames": [
            "*.millrace.internal",
            `??????????.${linkDomain}`,
          ],
        },
      },
    },
    {
      Sid: "MakeZones",
      Effect: "Allow",
      Action: ["route53:CreateHostedZone", "route53:ListHostedZonesByName"],
      Resource: "*",
    },
    {
      Sid: "WaitForZones",
      Effect: "Allow",
      Action: "route53:GetChange",
      Resource: "arn:aws:route53:::change/*",
    },
    { Sid: "WhoAmI", Effect: "Allow", Action: "sts:GetCallerIdentity", Resource: "*" },
  ];
}
