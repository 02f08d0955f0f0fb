import { S3Bucket } from "@cdktn/provider-aws/lib/s3-bucket/index.js";
import { S3BucketLifecycleConfiguration } from "@cdktn/provider-aws/lib/s3-bucket-lifecycle-configuration/index.js";
import { S3BucketPolicy } from "@cdktn/provider-aws/lib/s3-bucket-policy/index.js";
import { S3BucketPublicAccessBlock } from "@cdktn/provider-aws/lib/s3-bucket-public-access-block/index.js";
import { S3BucketServerSideEncryptionConfigurationA } from "@cdktn/provider-aws/lib/s3-bucket-server-side-encryption-configuration/index.js";
import { Construct } from "constructs";

export interface AccessLogProps {
  readonly bucketName: string;
  readonly accountId: string;
}

const KEPT_DAYS = 90;
const INCOMPLETE_UPLOAD_DAYS = 3;

/** Access log of the front door. Load balancers can only write to buckets encrypted with S3's own key. */
export class AccessLog extends Construct {
  /** Known once load balancers may write. */
  readonly bucket: string;

  constructor(scope: Construct, id: string, props: AccessLogProps) {
    super(scope, id);
    const arn = `arn:aws:s3:::${props.bucketName}`;
    const bucket = new S3Bucket(this, "bucket", {
      bucket: props.bucketName,
      lifecycle: { preventDestroy: true },
    });
    const closed = new S3BucketPublicAccessBlock(this, "closed", {
      bucket: bucket.id,
      blockPublicAcls: true,
      blockPublicPolicy: true,
      ignorePublicAcls: true,
      restrictPublicBuckets: true,
    });
    new S3BucketServerSideEncryptionConfigurationA(this, "encryption", {
      bucket: bucket.id,
      rule: [{ applyServerSideEncryptionByDefault: { sseAlgorithm: "AES256" } }],
    });
    new S3BucketLifecycleConfiguration(this, "lifecycle", {
      bucket: bucket.id,
      rule: [
        {
          id: "expire",
          status: "Enabled",
          filter: [{ prefix: "" }],
          expiration: [{ days: KEPT_DAYS }],
          abortIncompleteMultipartUpload: [{ daysAfterInitiation: INCOMPLETE_UPLOAD_DAYS }],
        },
      ],
    });
    const policy = new S3BucketPolicy(this, "policy", {
      bucket: bucket.id,
      policy: JSON.stringify({
        Version: "2012-10-17",
        Statement: [
          {
            Sid: "TlsOnly",
            Effect: "Deny",
            Principal: "*",
            Action: "s3:*",
            Resource: [arn, `${arn}/*`],
            Condition: { Bool: { "aws:SecureTransport": "false" } },
          },
          {
            Sid: "LoadBalancers",
            Effect: "Allow",
            Principal: { Service: "logdelivery.elasticloadbalancing.amazonaws.com" },
            Action: "s3:PutObject",
            Resource: `${arn}/AWSLogs/${props.accountId}/*`,
            Condition: { StringEquals: { "aws:SourceAccount": props.accountId } },
          },
        ],
      }),
      dependsOn: [closed],
    });
    this.bucket = policy.bucket;
  }
}
