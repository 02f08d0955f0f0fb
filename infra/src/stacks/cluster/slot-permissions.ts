/**
 * Permissions of a slot's instance and policies of the network's endpoints, derived from one table so that they
 * agree.
 */

import type { Statement } from "../../constructs/identity/statement.ts";
import { METRIC_NAMESPACE } from "../../constructs/observability/alarms.ts";
import type { ClusterNames } from "./names.ts";
import type { ClusterStackSpec } from "./spec.ts";

/** Calls by service; the keys name interface endpoints. */
export const ENDPOINT_ACTIONS = {
  ec2: ["ec2:AttachVolume", "ec2:DescribeVolumes"],
  logs: ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
  monitoring: ["cloudwatch:PutMetricData"],
  secretsmanager: ["secretsmanager:GetSecretValue"],
} as const;

const OBJECT_ACTIONS = [
  "s3:AbortMultipartUpload",
  "s3:DeleteObject",
  "s3:GetObject",
  "s3:ListMultipartUploadParts",
  "s3:PutObject",
];
const BUCKET_ACTIONS = ["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"];

/** Tags that identify a slot's volume and instance. */
export function slotTags(clusterId: string, slot: number): Readonly<Record<string, string>> {
  return { "millrace:cluster": clusterId, "millrace:slot": String(slot) };
}

function dataStatements(names: ClusterNames): Statement[] {
  return [
    {
      Sid: "Bucket",
      Effect: "Allow",
      Action: BUCKET_ACTIONS,
      Resource: [`arn:aws:s3:::${names.bucket}`],
    },
    {
      Sid: "Records",
      Effect: "Allow",
      Action: OBJECT_ACTIONS,
      Resource: [`arn:aws:s3:::${names.bucket}/*`],
    },
  ];
}

function artefactStatement({ artefact }: ClusterStackSpec): Statement {
  return {
    Sid: "Broker",
    Effect: "Allow",
    Action: ["s3:GetObject"],
    Resource: [`arn:aws:s3:::${artefact.bucket}/${artefact.key}`],
  };
}

/** S3's endpoint allows the cluster's bucket, its broker build, and Amazon Linux's packages. */
export function s3EndpointStatements(spec: ClusterStackSpec, names: ClusterNames): Statement[] {
  const packages: Statement = {
    Sid: "Packages",
    Effect: "Allow",
    Action: ["s3:GetObject"],
    Resource: [`arn:aws:s3:::al2023-repos-${spec.region}-de612dc2/*`],
  };
  return [...dataStatements(names), artefactStatement(spec), packages].map((statement) => ({
    ...statement,
    Principal: "*",
  }));
}

/** Keys may be used through the services that store with them, and in no other way. */
function keyStatements(spec: ClusterStackSpec, kmsKeyArn: string): Statement[] {
  const { artefact, region } = spec;
  const through = (...services: string[]) => ({
    StringEquals: {
      "kms:ViaService": services.map((service) => `${service}.${region}.amazonaws.com`),
    },
  });
  const statements: Statement[] = [
    {
      Sid: "Decrypt",
      Effect: "Allow",
      Action: ["kms:Decrypt", "kms:GenerateDataKey"],
      Resource: [kmsKeyArn],
      Condition: through("s3", "secretsmanager", "ec2"),
    },
    {
      // EC2 takes a grant in the caller's name when it attaches an encrypted volume.
      Sid: "AttachEncrypted",
      Effect: "Allow",
      Action: ["kms:CreateGrant"],
      Resource: [kmsKeyArn],
      Condition: { ...through("ec2"), Bool: { "kms:GrantIsForAWSResource": "true" } },
    },
  ];
  if (artefact.kmsKeyArn !== undefined) {
    statements.push({
      Sid: "DecryptBroker",
      Effect: "Allow",
      Action: ["kms:Decrypt"],
      Resource: [artefact.kmsKeyArn],
      Condition: through("s3"),
    });
  }
  return statements;
}

/** Its own volume, bucket, secret, log group and metrics. */
export function slotStatements(
  spec: ClusterStackSpec,
  names: ClusterNames,
  kmsKeyArn: string,
  slot: number,
): Statement[] {
  const { accountId, region, clusterId } = spec;
  const own = (service: string, resource: string) =>
    `arn:aws:${service}:${region}:${accountId}:${resource}`;
  const tagged = Object.entries(slotTags(clusterId, slot)).map(
    ([tag, value]) => [`aws:ResourceTag/${tag}`, value] as const,
  );
  return [
    ...dataStatements(names),
    artefactStatement(spec),
    {
      Sid: "FindVolume",
      Effect: "Allow",
      Action: ["ec2:DescribeVolumes"],
      Resource: ["*"],
    },
    {
      Sid: "AttachVolume",
      Effect: "Allow",
      Action: ["ec2:AttachVolume"],
      Resource: [own("ec2", "volume/*"), own("ec2", "instance/*")],
      Condition: { StringEquals: Object.fromEntries(tagged) },
    },
    {
      Sid: "LinkCredential",
      Effect: "Allow",
      Action: ENDPOINT_ACTIONS.secretsmanager,
      // Secrets Manager appends six random characters to each ARN.
      Resource: [own("secretsmanager", `secret:${names.linkSecret(slot)}-??????`)],
    },
    {
      Sid: "Logs",
      Effect: "Allow",
      Action: ENDPOINT_ACTIONS.logs,
      Resource: [own("logs", `log-group:${names.logGroup}:*`)],
    },
    {
      Sid: "Metrics",
      Effect: "Allow",
      Action: ENDPOINT_ACTIONS.monitoring,
      Resource: ["*"],
      Condition: { StringEquals: { "cloudwatch:namespace": METRIC_NAMESPACE } },
    },
    ...keyStatements(spec, kmsKeyArn),
  ];
}
