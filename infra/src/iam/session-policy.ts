import { CLUSTER_TAG, policyDocument, type Statement } from "./document.ts";

export interface SessionPolicyProps {
  readonly clusterId: string;
  /** `clusterPrefix(clusterId)`. */
  readonly prefix: string;
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
export function sessionPolicy({ clusterId, prefix }: SessionPolicyProps): string {
  const text = JSON.stringify(
    policyDocument(
      { Effect: "Allow", Action: SERVICES.map((service) => `${service}:*`), Resource: "*" },
      otherCluster("aws:ResourceTag", clusterId),
      otherCluster("aws:RequestTag", clusterId),
      {
        // Everything that is known by its name. Listings have no name to be bound to, and what is
        // known by its tags was judged above; zones have neither, see the role's own policy.
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

/** Refuses what carries, or is about to carry, the tag of a cluster that is not this one. */
function otherCluster(key: "aws:ResourceTag" | "aws:RequestTag", clusterId: string): Statement {
  const tag = `${key}/${CLUSTER_TAG}`;
  return {
    Effect: "Deny",
    Action: "*",
    Resource: "*",
    Condition: { StringNotEquals: { [tag]: clusterId }, Null: { [tag]: "false" } },
  };
}
