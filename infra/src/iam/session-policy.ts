import {
  CLUSTER_TAG,
  INSTALLATION_TAG,
  policyDocument,
  type Statement,
  TENANT_TAG,
} from "./document.ts";

export interface SessionPolicyProps {
  readonly clusterId: string;
  /** The cluster's owner. */
  readonly organizationId: string;
  /** Of `clusterNames`. */
  readonly prefix: string;
}

/** STS's limit on an inline session policy, in characters. */
export const SESSION_POLICY_CHARACTERS_MAX = 2_048;

/** Services of a cluster's stack. */
const SERVICES = [
  "autoscaling",
  "cloudwatch",
  "ec2",
  "elasticloadbalancing",
  "iam",
  "kms",
  "logs",
  "rds",
  "route53",
  "s3",
  "secretsmanager",
  "sts",
  "tag",
];

/**
 * Limits the provisioner's role to one cluster for one session. A session may do what both its role and this policy
 * allow: the role allows everything that Millrace does, and this policy denies access to other clusters, by tag
 * or, without tag conditions, by name. Throws a RangeError if STS would reject the text.
 */
export function sessionPolicy(props: SessionPolicyProps): string {
  const { clusterId, organizationId, prefix } = props;
  const text = JSON.stringify(
    policyDocument(
      { Effect: "Allow", Action: SERVICES.map((service) => `${service}:*`), Resource: "*" },
      another(`aws:ResourceTag/${CLUSTER_TAG}`, clusterId),
      another(`aws:RequestTag/${CLUSTER_TAG}`, clusterId),
      // A network that a tenant provides belongs to no cluster.
      another(`aws:ResourceTag/${TENANT_TAG}`, organizationId),
      {
        // The control plane's resources.
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
            // Of the zone of its brokers and of that of the gateways, whose names the hash is in.
            "route53:ChangeResourceRecordSetsNormalizedRecordNames": `*${hashIn(prefix)}.*`,
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
          "rds:Describe*",
          "route53:*",
          "sts:*",
          "tag:*",
        ],
        NotResource: [
          `arn:aws:s3:::${prefix}-*`,
          `arn:aws:iam::*:role/${prefix}-*`,
          `arn:aws:iam::*:instance-profile/${prefix}-*`,
          "arn:aws:iam::*:role/aws-service-role/*",
          `arn:aws:secretsmanager:*:*:secret:${prefix}/*`,
          `arn:aws:rds:*:*:*:${prefix}*`,
          "arn:aws:rds:*:*:og:default:*",
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

/** The hash of the cluster's id. */
function hashIn(prefix: string): string {
  return prefix.slice(prefix.lastIndexOf("-") + 1);
}

/** Denies access to resources and requests with this tag and another value than `own`. */
function another(tag: string, own: string): Statement {
  return {
    Effect: "Deny",
    Action: "*",
    Resource: "*",
    Condition: { StringNotEquals: { [tag]: own }, Null: { [tag]: "false" } },
  };
}
