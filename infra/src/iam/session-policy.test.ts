import { describe, expect, it } from "vitest";
import { CONTROL_PLANE } from "../../test/control-plane-fixture.ts";
import { clusterStack, OFFLINE, resource, type StackDocument } from "../../test/stack-fixture.ts";
import { clusterNames } from "../stacks/cluster/names.ts";
import { synthesizeControlPlane } from "../stacks/control-plane/control-plane-stack.ts";
import { type PolicyDocument, policyDocument } from "./document.ts";
import { type AccessRequest, isAllowed } from "./evaluation.ts";
import { permissionsBoundary } from "./permissions-boundary.ts";
import {
  MANAGED_POLICY_CHARACTERS_MAX,
  provisionerBoundary,
  provisionerPolicies,
} from "./provisioner-policies.ts";
import { SESSION_POLICY_CHARACTERS_MAX, sessionPolicy } from "./session-policy.ts";

const ACCOUNT = "123456789012";
const BOUNDARY = `arn:aws:iam::${ACCOUNT}:policy/millrace/boundary`;
const OURS = "clu_01jd00000000000000000000aa";
const OTHER = "clu_01jd00000000000000000000bb";
const ORGANIZATION = "org_01jd00000000000000000000aa";
const { prefix, dnsZone, linkHost } = clusterNames(OURS, ACCOUNT);
const { prefix: otherPrefix, dnsZone: otherZone, ...other } = clusterNames(OTHER, ACCOUNT);
const DOMAIN = "link.millrace.example.com";
const LIMITS = { accountId: ACCOUNT, permissionsBoundaryArn: BOUNDARY, linkDomain: DOMAIN };

const identity = provisionerPolicies(LIMITS).map(({ document }) => document);
const boundary = provisionerBoundary(LIMITS);
const session = JSON.parse(
  sessionPolicy({ clusterId: OURS, organizationId: ORGANIZATION, prefix }),
) as PolicyDocument;

const volume = `arn:aws:ec2:eu-west-1:${ACCOUNT}:volume/vol-1`;
const tagged = (cluster: string) => ({
  "aws:ResourceTag/millrace:cluster": cluster,
  "aws:ResourceTag/millrace:managed-by": "millrace",
  "aws:ResourceTag/millrace:tenant": ORGANIZATION,
});
/** What the control plane's stack itself puts on each of its parts. */
const INSTALLATION = Object.fromEntries(
  Object.entries(
    resource(JSON.parse(synthesizeControlPlane(CONTROL_PLANE, OFFLINE)) as StackDocument, "aws_vpc")
      .tags as Record<string, string>,
  ).map(([tag, value]) => [`aws:ResourceTag/${tag}`, value]),
);
/** A network that somebody brought, with the tag of its owner. */
const brought = (organization: string) => ({ "aws:ResourceTag/millrace:tenant": organization });
const tagging = (cluster: string) => ({
  "aws:RequestTag/millrace:cluster": cluster,
  "aws:RequestTag/millrace:managed-by": "millrace",
});
const iam = (rest: string) => `arn:aws:iam::${ACCOUNT}:${rest}`;
const ec2 = (rest: string) => `arn:aws:ec2:eu-west-1:${ACCOUNT}:${rest}`;
const rds = (rest: string) => `arn:aws:rds:eu-west-1:${ACCOUNT}:${rest}`;
const elb = (rest: string) => `arn:aws:elasticloadbalancing:eu-west-1:${ACCOUNT}:${rest}`;
/** A request that carries this cluster's tags, for a part of the control plane. */
const CONTROL_PLANES = { ...INSTALLATION, ...tagging(OURS) };

/** What a session for one cluster may do, by what it is about. */
const allowed: Record<string, AccessRequest> = {
  "reads the report of a slot of its own that lost its metadata": {
    action: "s3:GetObject",
    resource: `arn:aws:s3:::${prefix}-data-${ACCOUNT}/meta/nodes/0/recovery/vol-1/report`,
  },
  "approves the recovery of a slot of its own": {
    action: "s3:PutObject",
    resource: `arn:aws:s3:::${prefix}-data-${ACCOUNT}/meta/nodes/0/recovery/vol-1/approved`,
  },
  "decrypts that report with its own key": {
    action: "kms:Decrypt",
    resource: `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`,
    context: { ...tagged(OURS), "kms:ViaService": "s3.eu-west-1.amazonaws.com" },
  },
  "describes volumes": { action: "ec2:DescribeVolumes", resource: "*" },
  "lists groups of its own": { action: "autoscaling:DescribeAutoScalingGroups", resource: "*" },
  "finds by tags": { action: "tag:GetResources", resource: "*" },
  "makes a volume with its tags": {
    action: "ec2:CreateVolume",
    resource: volume,
    context: tagging(OURS),
  },
  "tags what it makes": {
    action: "ec2:CreateTags",
    resource: volume,
    context: { ...tagging(OURS), "ec2:CreateAction": "CreateVolume" },
  },
  "empties the default group of its VPC, after it has its tags": {
    action: "ec2:CreateTags",
    resource: `arn:aws:ec2:eu-west-1:${ACCOUNT}:security-group/sg-1`,
    context: tagging(OURS),
  },
  "makes a rule with its tags": {
    action: "ec2:AuthorizeSecurityGroupIngress",
    resource: `arn:aws:ec2:eu-west-1:${ACCOUNT}:security-group-rule/*`,
    context: tagging(OURS),
  },
  "makes a rule in its group": {
    action: "ec2:AuthorizeSecurityGroupIngress",
    resource: `arn:aws:ec2:eu-west-1:${ACCOUNT}:security-group/sg-1`,
    context: { ...tagged(OURS), ...tagging(OURS) },
  },
  "makes its key's alias": {
    action: "kms:CreateAlias",
    resource: `arn:aws:kms:eu-west-1:${ACCOUNT}:alias/${prefix}`,
  },
  "names its key": {
    action: "kms:CreateAlias",
    resource: `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`,
    context: tagged(OURS),
  },
  "makes a listener with its tags": {
    action: "elasticloadbalancing:CreateListener",
    resource: `arn:aws:elasticloadbalancing:eu-west-1:${ACCOUNT}:listener/net/a/1/2`,
    context: tagging(OURS),
  },
  "changes its volume": { action: "ec2:ModifyVolume", resource: volume, context: tagged(OURS) },
  "deletes its volume": { action: "ec2:DeleteVolume", resource: volume, context: tagged(OURS) },
  "deletes objects of its bucket": {
    action: "s3:DeleteObject",
    resource: `arn:aws:s3:::${prefix}-data-${ACCOUNT}/object`,
  },
  "makes its log group": {
    action: "logs:CreateLogGroup",
    resource: `arn:aws:logs:eu-west-1:${ACCOUNT}:log-group:/millrace/${OURS}:*`,
  },
  "makes its role inside the boundary": {
    action: "iam:CreateRole",
    resource: iam(`role/${prefix}-b0`),
    context: { "iam:PermissionsBoundary": BOUNDARY },
  },
  "closes its group again": {
    action: "ec2:RevokeSecurityGroupIngress",
    resource: ec2("security-group/sg-1"),
    context: tagged(OURS),
  },
  "takes a policy from its role that somebody gave it": {
    action: "iam:DetachRolePolicy",
    resource: iam(`role/${prefix}-b0`),
  },
  "deletes a policy of its role": {
    action: "iam:DeleteRolePolicy",
    resource: iam(`role/${prefix}-b0`),
  },
  "gives its role to an instance": {
    action: "iam:PassRole",
    resource: iam(`role/${prefix}-b0`),
    context: { "iam:PassedToService": "ec2.amazonaws.com" },
  },
  "makes its group": {
    action: "autoscaling:CreateAutoScalingGroup",
    resource: `arn:aws:autoscaling:eu-west-1:${ACCOUNT}:autoScalingGroup:*:autoScalingGroupName/${prefix}-b0`,
    context: tagging(OURS),
  },
  "makes records of the internal zone": {
    action: "route53:ChangeResourceRecordSets",
    resource: "arn:aws:route53:::hostedzone/Z1",
    context: {
      "route53:ChangeResourceRecordSetsNormalizedRecordNames": [
        `b0.${dnsZone}`,
        `bootstrap.${dnsZone}`,
      ],
    },
  },
  "makes the record of the gateways": {
    action: "route53:ChangeResourceRecordSets",
    resource: "arn:aws:route53:::hostedzone/Z1",
    context: { "route53:ChangeResourceRecordSetsNormalizedRecordNames": [linkHost(DOMAIN)] },
  },
  "makes the metadata database of its cluster": {
    action: "rds:CreateDBInstance",
    resource: rds(`db:${prefix}`),
    context: tagging(OURS),
  },
  "puts it into its own subnets": {
    action: "rds:CreateDBInstance",
    resource: rds(`subgrp:${prefix}`),
  },
  "keeps a last snapshot of it": {
    action: "rds:CreateDBSnapshot",
    resource: rds(`snapshot:${prefix}-final`),
  },
  "finds databases": { action: "rds:DescribeDBInstances", resource: rds("db:*") },
  "reads the password that it gives the database": {
    action: "secretsmanager:GetSecretValue",
    resource: `arn:aws:secretsmanager:eu-west-1:${ACCOUNT}:secret:${prefix}/metadata-password-AbCdEf`,
  },
  "gives its slots credentials of the control link": {
    action: "secretsmanager:PutSecretValue",
    resource: `arn:aws:secretsmanager:eu-west-1:${ACCOUNT}:secret:${prefix}/link-0-AbCdEf`,
  },
  "makes its group in a VPC that its tenant brought": {
    action: "ec2:CreateSecurityGroup",
    resource: ec2("vpc/vpc-1"),
    context: { ...brought(ORGANIZATION), ...tagging(OURS) },
  },
  "starts instances in a subnet that its tenant brought": {
    action: "ec2:RunInstances",
    resource: ec2("subnet/subnet-1"),
    context: { ...brought(ORGANIZATION), ...tagging(OURS) },
  },
  "starts instances in a subnet of its own": {
    action: "ec2:RunInstances",
    resource: ec2("subnet/subnet-1"),
    context: { ...tagged(OURS), ...tagging(OURS) },
  },
  "tags its key as it makes it": {
    action: "kms:TagResource",
    resource: `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`,
    context: tagging(OURS),
  },
  "turns away who is connected to its endpoint service": {
    action: "ec2:RejectVpcEndpointConnections",
    resource: ec2("vpc-endpoint-service/vpce-svc-1"),
    context: tagged(OURS),
  },
};

const refused: Record<string, AccessRequest> = {
  ...Object.fromEntries(
    [
      ["kms:ScheduleKeyDeletion", `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`],
      ["kms:PutKeyPolicy", `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`],
      ["kms:TagResource", `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`],
      ["elasticloadbalancing:DeleteLoadBalancer", elb("loadbalancer/app/mr-main/1")],
      ["elasticloadbalancing:ModifyListener", elb("listener/app/mr-main/1/2")],
      ["ec2:AuthorizeSecurityGroupIngress", ec2("security-group/sg-1")],
      ["ec2:CreateSecurityGroup", ec2("vpc/vpc-1")],
      ["ec2:RunInstances", ec2("subnet/subnet-1")],
      ["ec2:CreateTags", ec2("vpc/vpc-1")],
    ].map(([action, target]) => [
      `${action} on the control plane`,
      { action: String(action), resource: String(target), context: CONTROL_PLANES },
    ]),
  ),
  "reads records of its own cluster": {
    action: "s3:GetObject",
    resource: `arn:aws:s3:::${prefix}-data-${ACCOUNT}/data/1`,
  },
  "writes into the backup of its own cluster's metadata": {
    action: "s3:PutObject",
    resource: `arn:aws:s3:::${prefix}-data-${ACCOUNT}/meta/nodes/0/log/1`,
  },
  "approves the recovery of another cluster": {
    action: "s3:PutObject",
    resource: `arn:aws:s3:::${otherPrefix}-data-${ACCOUNT}/meta/nodes/0/recovery/vol-1/approved`,
  },
  "decrypts another cluster's objects": {
    action: "kms:Decrypt",
    resource: `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`,
    context: { ...tagged(OTHER), "kms:ViaService": "s3.eu-west-1.amazonaws.com" },
  },
  "puts names into another cluster's zone": {
    action: "route53:ChangeResourceRecordSets",
    resource: "arn:aws:route53:::hostedzone/Z1",
    context: {
      "route53:ChangeResourceRecordSetsNormalizedRecordNames": [`b0.${dnsZone}`, `b0.${otherZone}`],
    },
  },
  "leads another cluster's brokers to other gateways": {
    action: "route53:ChangeResourceRecordSets",
    resource: "arn:aws:route53:::hostedzone/Z1",
    context: { "route53:ChangeResourceRecordSetsNormalizedRecordNames": [other.linkHost(DOMAIN)] },
  },
  "changes a record of the control plane's own domain": {
    action: "route53:ChangeResourceRecordSets",
    resource: "arn:aws:route53:::hostedzone/Z1",
    context: {
      "route53:ChangeResourceRecordSetsNormalizedRecordNames": ["millrace.example.com"],
    },
  },
  "deletes another cluster's database": {
    action: "rds:DeleteDBInstance",
    resource: rds(`db:${otherPrefix}`),
    context: tagged(OTHER),
  },
  "deletes a database that is not a cluster's": {
    action: "rds:DeleteDBInstance",
    resource: rds("db:mr-control-plane"),
  },
  "reads the password of another cluster's database": {
    action: "secretsmanager:GetSecretValue",
    resource: `arn:aws:secretsmanager:eu-west-1:${ACCOUNT}:secret:${otherPrefix}/metadata-password-AbCdEf`,
  },
  "reads a slot's credential of its own": {
    action: "secretsmanager:GetSecretValue",
    resource: `arn:aws:secretsmanager:eu-west-1:${ACCOUNT}:secret:${prefix}/link-0-AbCdEf`,
  },
  "works in a VPC that nobody marked as a tenant's": {
    action: "ec2:CreateSecurityGroup",
    resource: ec2("vpc/vpc-1"),
    context: tagging(OURS),
  },
  "starts instances in a subnet that nobody marked as a tenant's": {
    action: "ec2:RunInstances",
    resource: ec2("subnet/subnet-1"),
    context: tagging(OURS),
  },
  "works in a VPC that another tenant brought": {
    action: "ec2:CreateSecurityGroup",
    resource: ec2("vpc/vpc-1"),
    context: { ...brought("org_other"), ...tagging(OURS) },
  },
  "starts instances in a subnet that another tenant brought": {
    action: "ec2:RunInstances",
    resource: ec2("subnet/subnet-1"),
    context: { ...brought("org_other"), ...tagging(OURS) },
  },
  "turns away who is connected to another's endpoint service": {
    action: "ec2:RejectVpcEndpointConnections",
    resource: ec2("vpc-endpoint-service/vpce-svc-1"),
    context: tagged(OTHER),
  },
  "deletes another cluster's volume": {
    action: "ec2:DeleteVolume",
    resource: volume,
    context: tagged(OTHER),
  },
  "deletes a volume that Millrace did not make": { action: "ec2:DeleteVolume", resource: volume },
  "takes another cluster's volume by its tag": {
    action: "ec2:CreateTags",
    resource: volume,
    context: { ...tagged(OTHER), ...tagging(OURS) },
  },
  "takes another cluster's group by its tag": {
    action: "ec2:CreateTags",
    resource: `arn:aws:ec2:eu-west-1:${ACCOUNT}:security-group/sg-1`,
    context: { ...tagged(OTHER), ...tagging(OURS) },
  },
  "opens a group that Millrace did not make": {
    action: "ec2:AuthorizeSecurityGroupIngress",
    resource: `arn:aws:ec2:eu-west-1:${ACCOUNT}:security-group/sg-1`,
  },
  "opens a group that Millrace did not make by tagging the rule": {
    action: "ec2:AuthorizeSecurityGroupIngress",
    resource: `arn:aws:ec2:eu-west-1:${ACCOUNT}:security-group/sg-1`,
    context: tagging(OURS),
  },
  "makes a subnet in a VPC that Millrace did not make": {
    action: "ec2:CreateSubnet",
    resource: `arn:aws:ec2:eu-west-1:${ACCOUNT}:vpc/vpc-1`,
    context: tagging(OURS),
  },
  "listens on a balancer that Millrace did not make": {
    action: "elasticloadbalancing:CreateListener",
    resource: `arn:aws:elasticloadbalancing:eu-west-1:${ACCOUNT}:loadbalancer/net/a/1`,
    context: tagging(OURS),
  },
  "names another cluster's key": {
    action: "kms:UpdateAlias",
    resource: `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`,
    context: tagged(OTHER),
  },
  "takes a volume that Millrace did not make by a tag": {
    action: "ec2:CreateTags",
    resource: volume,
    context: tagging(OURS),
  },
  "gives its volume to another cluster": {
    action: "ec2:CreateTags",
    resource: volume,
    context: { ...tagged(OURS), ...tagging(OTHER) },
  },
  "makes a volume without tags": { action: "ec2:CreateVolume", resource: volume },
  "makes a volume for another cluster": {
    action: "ec2:CreateVolume",
    resource: volume,
    context: tagging(OTHER),
  },
  "reads another cluster's records": {
    action: "s3:ListBucket",
    resource: `arn:aws:s3:::${otherPrefix}-data-${ACCOUNT}`,
  },
  "deletes another cluster's records": {
    action: "s3:DeleteObject",
    resource: `arn:aws:s3:::${otherPrefix}-data-${ACCOUNT}/object`,
  },
  "deletes any other bucket": { action: "s3:DeleteBucket", resource: "arn:aws:s3:::backups" },
  "replaces another cluster's credential": {
    action: "secretsmanager:PutSecretValue",
    resource: `arn:aws:secretsmanager:eu-west-1:${ACCOUNT}:secret:${otherPrefix}/link-0-AbCdEf`,
  },
  "stops another cluster's group": {
    action: "autoscaling:UpdateAutoScalingGroup",
    resource: `arn:aws:autoscaling:eu-west-1:${ACCOUNT}:autoScalingGroup:u:autoScalingGroupName/${otherPrefix}-b0`,
    context: tagged(OTHER),
  },
  "makes a role without the boundary": {
    action: "iam:CreateRole",
    resource: iam(`role/${prefix}-b0`),
  },
  "makes a role inside another boundary": {
    action: "iam:CreateRole",
    resource: iam(`role/${prefix}-b0`),
    context: { "iam:PermissionsBoundary": "arn:aws:iam::aws:policy/AdministratorAccess" },
  },
  "takes the boundary off": {
    action: "iam:DeleteRolePermissionsBoundary",
    resource: iam(`role/${prefix}-b0`),
  },
  "widens its own role": {
    action: "iam:PutRolePolicy",
    resource: iam("role/millrace/provisioner"),
    context: { "iam:PermissionsBoundary": BOUNDARY },
  },
  "gives an administrator's role to an instance": {
    action: "iam:PassRole",
    resource: iam("role/admin"),
    context: { "iam:PassedToService": "ec2.amazonaws.com" },
  },
  "gives its role to a function": {
    action: "iam:PassRole",
    resource: iam(`role/${prefix}-b0`),
    context: { "iam:PassedToService": "lambda.amazonaws.com" },
  },
  "deletes another's key": {
    action: "kms:ScheduleKeyDeletion",
    resource: `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`,
  },
  "decrypts with a key directly": {
    action: "kms:Decrypt",
    resource: `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`,
  },
  "changes records of another zone": {
    action: "route53:ChangeResourceRecordSets",
    resource: "arn:aws:route53:::hostedzone/Z1",
    context: { "route53:ChangeResourceRecordSetsNormalizedRecordNames": ["www.example.com"] },
  },
  "assumes another role": { action: "sts:AssumeRole", resource: iam("role/admin") },
  "uses a service that no cluster needs": { action: "lambda:CreateFunction", resource: "*" },
};

describe("a session for one cluster", () => {
  it.each(Object.entries(allowed))("%s", (_, request) => {
    expect(isAllowed({ identity, session, boundary }, request)).toBe(true);
  });

  it.each(Object.entries(refused))("never %s", (_, request) => {
    expect(isAllowed({ identity, session }, request)).toBe(false);
  });

  it("is not all that keeps the control plane: the role alone would refuse as well", () => {
    const names = Object.keys(refused).filter((name) => name.endsWith("on the control plane"));
    expect(names.length).toBeGreaterThan(5);
    for (const name of names) expect(isAllowed({ identity }, refused[name]!), name).toBe(false);
  });

  it("is what refuses another cluster: the role alone would not", () => {
    for (const name of ["deletes another cluster's volume", "deletes another cluster's records"]) {
      expect(isAllowed({ identity }, refused[name]!)).toBe(true);
    }
  });
});

/** A key whose tags KMS's authorization does not know yet, which takes up to five minutes. */
describe("a key that was just created", () => {
  const roleArn = "arn:aws:iam::111122223333:role/millrace/provisioner";
  const { Statement: statements } = JSON.parse(
    String(resource(clusterStack({ provisionerRoleArn: roleArn }), "aws_kms_key").policy),
  ) as PolicyDocument;
  const naming = statements.filter(
    ({ Principal: principal }) => typeof principal === "object" && principal.AWS === roleArn,
  );
  const key = `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1`;
  const policies = { identity, session, boundary };

  it.each(["EnableKeyRotation", "CreateAlias", "ScheduleKeyDeletion"])("takes %s", (call) => {
    const request = { action: `kms:${call}`, resource: key };
    const withKeyPolicy = { ...policies, resource: policyDocument(...naming) };
    expect(isAllowed(policies, request)).toBe(false);
    expect(isAllowed(withKeyPolicy, request)).toBe(true);
    expect(isAllowed(withKeyPolicy, { ...request, context: tagged(OTHER) })).toBe(false);
  });
});

describe("the sizes that AWS takes", () => {
  it("holds for the longest cluster id", () => {
    const session = { organizationId: "o".repeat(36), prefix };
    const text = sessionPolicy({ clusterId: "c".repeat(36), ...session });
    expect(text.length).toBeLessThanOrEqual(SESSION_POLICY_CHARACTERS_MAX);
    expect(() => sessionPolicy({ clusterId: "c".repeat(900), ...session })).toThrow(RangeError);
  });

  it("holds for every managed policy", () => {
    const policies = [
      ...provisionerPolicies(LIMITS),
      {
        name: "provisioner-boundary",
        document: provisionerBoundary(LIMITS),
      },
      {
        name: "boundary",
        document: permissionsBoundary({ accountId: ACCOUNT, artefactBucket: "millrace-builds" }),
      },
    ];
    for (const { name, document } of policies) {
      expect(JSON.stringify(document).length, name).toBeLessThan(MANAGED_POLICY_CHARACTERS_MAX);
    }
  });
});
