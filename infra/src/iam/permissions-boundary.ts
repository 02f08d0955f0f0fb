import {
  ANY_CLUSTER_PREFIX,
  MANAGED,
  MANAGED_TAG,
  type PolicyDocument,
  policyDocument,
} from "./document.ts";

/** Prefix of the broker builds' keys. */
export const BROKER_BUILDS = "broker";

export interface BoundaryProps {
  /** The account that clusters run in, twelve digits. */
  readonly accountId: string;
  /** Bucket that instances fetch the broker's build from; it may be another account's. */
  readonly artefactBucket: string;
}

/**
 * The maximum that any role of a cluster can do, whatever its policies: read broker
 * builds, use a cluster's bucket, attach a volume of ours, read its secret, write its logs.
 */
export function permissionsBoundary(props: BoundaryProps): PolicyDocument {
  const { accountId, artefactBucket } = props;
  const ours = { StringEquals: { [`aws:ResourceTag/${MANAGED_TAG}`]: MANAGED } };
  const own = (service: string, rest: string) => `arn:aws:${service}:*:${accountId}:${rest}`;
  return policyDocument(
    {
      Sid: "BrokerBuilds",
      Effect: "Allow",
      Action: "s3:GetObject",
      // Terraform's state of the control plane is in the same bucket.
      Resource: `arn:aws:s3:::${artefactBucket}/${BROKER_BUILDS}/*`,
    },
    {
      Sid: "Records",
      Effect: "Allow",
      Action: [
        "s3:AbortMultipartUpload",
        "s3:DeleteObject",
        "s3:GetBucketLocation",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:ListBucketMultipartUploads",
        "s3:ListMultipartUploadParts",
        "s3:PutObject",
      ],
      Resource: [
        `arn:aws:s3:::${ANY_CLUSTER_PREFIX}-data-*`,
        `arn:aws:s3:::${ANY_CLUSTER_PREFIX}-data-*/*`,
      ],
    },
    { Sid: "FindVolume", Effect: "Allow", Action: "ec2:DescribeVolumes", Resource: "*" },
    {
      Sid: "AttachVolume",
      Effect: "Allow",
      Action: ["ec2:AttachVolume", "ec2:DetachVolume"],
      Resource: [own("ec2", "volume/*"), own("ec2", "instance/*")],
      Condition: ours,
    },
    {
      Sid: "Secrets",
      Effect: "Allow",
      Action: "secretsmanager:GetSecretValue",
      Resource: own("secretsmanager", `secret:${ANY_CLUSTER_PREFIX}/*`),
    },
    {
      Sid: "Logs",
      Effect: "Allow",
      Action: ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
      Resource: own("logs", "log-group:/millrace/*"),
    },
    {
      Sid: "Metrics",
      Effect: "Allow",
      Action: "cloudwatch:PutMetricData",
      Resource: "*",
      Condition: { StringLike: { "cloudwatch:namespace": "Millrace*" } },
    },
    {
      Sid: "Keys",
      Effect: "Allow",
      Action: ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey", "kms:CreateGrant"],
      Resource: own("kms", "key/*"),
      Condition: {
        StringLike: {
          "kms:ViaService": [
            "ec2.*.amazonaws.com",
            "s3.*.amazonaws.com",
            "secretsmanager.*.amazonaws.com",
          ],
        },
      },
    },
  );
}
