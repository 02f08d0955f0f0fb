/**
 * Permissions of a slot's instance and policies of the network's endpoints, derived from one table so that they
 * agree.
 */

import type { Statement } from "../../constructs/identity/statement.ts";
import { METRIC_NAMESPACE } from "../../constructs/observability/alarms.ts";
import type { ClusterNames } from "./names.ts";
import { type ClusterStackSpec, hasSeveral } from "./spec.ts";

/** Calls by service; the keys name interface endpoints. */
const ENDPOINT_ACTIONS = {
  ec2: ["ec2:AttachVolume", "ec2:DescribeVolumes"],
  logs: ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
  monitoring: ["cloudwatch:PutMetricData"],
  secretsmanager: ["secretsmanager:GetSecretValue"],
} as const;

/** What the endpoints let through; several slots also detach the log volumes of those that died. */
export function endpointActions(
  spec: ClusterStackSpec,
): Readonly<Record<string, readonly string[]>> {
  if (!hasSeveral(spec)) return ENDPOINT_ACTIONS;
  return { ...ENDPOINT_ACTIONS, ec2: [...ENDPOINT_ACTIONS.ec2, "ec2:DetachVolume"] };
}

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

/** Tells log volumes from the system volumes of instances, which have the tags of their slot as well. */
const VOLUME_TAG = "millrace:volume";
const LOG_VOLUME = "wal";

/** Tags of a slot's log volume. */
export function volumeTags(
  spec: Pick<ClusterStackSpec, "clusterId" | "slots">,
  slot: number,
): Readonly<Record<string, string>> {
  const tags = slotTags(spec.clusterId, slot);
  return hasSeveral(spec) ? { ...tags, [VOLUME_TAG]: LOG_VOLUME } : tags;
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

/** The slot's own volume and instance. */
function ownVolumeStatements(spec: ClusterStackSpec, slot: number): Statement[] {
  return [
    {
      Sid: "AttachVolume",
      Effect: "Allow",
      Action: ["ec2:AttachVolume"],
      Resource: [own(spec, "ec2", "volume/*"), own(spec, "ec2", "instance/*")],
      Condition: tagged(slotTags(spec.clusterId, slot)),
    },
  ];
}

/**
 * Any log volume of the cluster, to the slot's own instance: the broker adopts the log of one that died. AWS checks the
 * volume and the instance of each call.
 */
function logVolumeStatements(spec: ClusterStackSpec, slot: number): Statement[] {
  const { clusterId } = spec;
  return [
    {
      Sid: "LogVolumes",
      Effect: "Allow",
      Action: ["ec2:AttachVolume", "ec2:DetachVolume"],
      Resource: [own(spec, "ec2", "volume/*")],
      Condition: tagged({ "millrace:cluster": clusterId, [VOLUME_TAG]: LOG_VOLUME }),
    },
    {
      Sid: "AttachToItself",
      Effect: "Allow",
      Action: ["ec2:AttachVolume"],
      Resource: [own(spec, "ec2", "instance/*")],
      Condition: tagged(slotTags(clusterId, slot)),
    },
    {
      Sid: "DetachFromTheDead",
      Effect: "Allow",
      Action: ["ec2:DetachVolume"],
      Resource: [own(spec, "ec2", "instance/*")],
      Condition: tagged({ "millrace:cluster": clusterId }),
    },
  ];
}

function tagged(tags: Readonly<Record<string, string>>): NonNullable<Statement["Condition"]> {
  const named = Object.entries(tags).map(([tag, value]) => [`aws:ResourceTag/${tag}`, value]);
  return { StringEquals: Object.fromEntries(named) };
}

function own({ accountId, region }: ClusterStackSpec, service: string, resource: string): string {
  return `arn:aws:${service}:${region}:${accountId}:${resource}`;
}

/** Its own volume, bucket, secret, log group and metrics; one of several, the cluster's log volumes and metadata. */
export function slotStatements(
  spec: ClusterStackSpec,
  names: ClusterNames,
  kmsKeyArn: string,
  slot: number,
): Statement[] {
  const secret = (name: string) => own(spec, "secretsmanager", `secret:${name}-??????`);
  return [
    ...dataStatements(names),
    artefactStatement(spec),
    {
      Sid: "FindVolume",
      Effect: "Allow",
      Action: ["ec2:DescribeVolumes"],
      Resource: ["*"],
    },
    ...(hasSeveral(spec) ? logVolumeStatements(spec, slot) : ownVolumeStatements(spec, slot)),
    {
      Sid: "LinkCredential",
      Effect: "Allow",
      Action: ENDPOINT_ACTIONS.secretsmanager,
      // Secrets Manager appends six random characters to each ARN.
      Resource: [secret(names.linkSecret(slot))],
    },
    ...(hasSeveral(spec)
      ? [
          {
            Sid: "Metadata",
            Effect: "Allow" as const,
            Action: ENDPOINT_ACTIONS.secretsmanager,
            Resource: [secret(names.metadataSecrets.url)],
          },
        ]
      : []),
    {
      Sid: "Logs",
      Effect: "Allow",
      Action: ENDPOINT_ACTIONS.logs,
      Resource: [own(spec, "logs", `log-group:${names.logGroup}:*`)],
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
