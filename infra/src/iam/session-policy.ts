import {
  CLUSTER_TAG,
  INSTALLATION_TAG,
  policyDocument,
  type Statement,
  TENANT_TAG,
} from "./document.ts";

export interface SessionPolicyProps {
  readonly clusterId: string;
  /** Whose cluster it is. */
  readonly organizationId: string;
  /** Of `clusterNames`. */
  readonly prefix: string;
  /** Of `clusterNames`. */
  readonly dnsZone: string;
}

/** Characters that STS takes for an inline session policy. */
export const SESSION_POLICY_CHARACTERS_MAX = 2_048;

/** Services that a cluster's stack is made of. */
const SERVICES = [
  "autoscaling",
  "cloudwatch",
  "ec2",
  "elasticloadbalancing",
  "iam",
  "kms",
  "logs",
  "route53",
  "s3",
  "secretsmanager",
  "ssm",
  "sts",
  "tag",
];

/**
 * Narrows the provisioner's role to one cluster for the time of one session. A session has what
 * both its role and this policy allow: the role says what Millrace may do at all, and this refuses
 * whatever belongs to another cluster, by its tag or, where AWS knows no tags, by its name.
 * Throws a RangeError where STS would refuse the text.
 */
export function sessionPolicy(props: SessionPolicyProps): string {
  const { clusterId, organizationId, prefix, dnsZone } = props;
  const text = JSON.stringify(
    policyDocument(
      { Effect: "Allow", Action: SERVICES.map((service) => `${service}:*`), Resource: "*" },
      another(`aws:ResourceTag/${CLUSTER_TAG}`, clusterId),
      another(`aws:RequestTag/${CLUSTER_TAG}`, clusterId),
      // A network that a tenant brought is of no cluster.
      another(`aws:ResourceTag/${TENANT_TAG}`, organizationId),
      {
        // What the control plane consists of.
        Effect: "Deny",
        Action: "*",
        Resource: "*",
        Condition: { Null: { [`aws:ResourceTag/${INSTALLATION_TAG}`]: "false" } },
      },
      {
        Effect: "Deny",
        Action: "route53:ChangeResourceRecordSets",
        Resource: "*",
        Condition: {
          "ForAnyValue:StringNotLike": {
            "route53:ChangeResourceRecordSetsNormalizedRecordNames": `*.${dnsZone}`,
          },
        },
      },
      {
        // Everything that is known by its name. Listings have no name to be bound to, and what is
        // known by its tags was checked above, records by theirs; zones themselves have neither, see
        // the role's own policy.
        Effect: "Deny",
        NotAction: [
          "autoscaling:Describe*",
          "cloudwatch:Describe*",
          "ec2:*",
          "elasticloadbalancing:*",
          "kms:*",
          "logs:Describe*",
          "route53:*",
          "ssm:*",
          "sts:*",
          "tag:*",
        ],
        NotResource: [
          `arn:aws:s3:::${prefix}-*`,
          `arn:aws:iam::*:role/${prefix}-*`,
          `arn:aws:iam::*:instance-profile/${prefix}-*`,
          "arn:aws:iam::*:role/aws-service-role/*",
          `arn:aws:secretsmanager:*:*:secret:${prefix}/*`,
          `arn:aws:logs:*:*:log-group:/millrace/${clusterId}*`,
          `arn:aws:cloudwatch:*:*:alarm:${prefix}-*`,
          `arn:aws:autoscaling:*:*:autoScalingGroup:*:autoScalingGroupName/${prefix}-*`,
        ],
      },
    ),
  );
  if (text.length > SESSION_POLICY_CHARACTERS_MAX) {
    throw new RangeError(
      `the session policy of ${clusterId} has ${text.length} characters, STS takes ${SESSION_POLICY_CHARACTERS_MAX}`,
    );
  }
  return text;
}

/** Refuses what carries, or is about to carry, this tag with another value than `own`. */
function another(tag: string, own: string): Statement {
  return {
    Effect: "Deny",
    Action: "*",
    Resource: "*",
    Condition: { StringNotEquals: { [tag]: own }, Null: { [tag]: "false" } },
  };
}
