import { S3Bucket } from "@cdktn/provider-aws/lib/s3-bucket/index.js";
import { S3BucketLifecycleConfiguration } from "@cdktn/provider-aws/lib/s3-bucket-lifecycle-configuration/index.js";
import { S3BucketOwnershipControls } from "@cdktn/provider-aws/lib/s3-bucket-ownership-controls/index.js";
import { S3BucketPolicy } from "@cdktn/provider-aws/lib/s3-bucket-policy/index.js";
import { S3BucketPublicAccessBlock } from "@cdktn/provider-aws/lib/s3-bucket-public-access-block/index.js";
import { S3BucketServerSideEncryptionConfigurationA } from "@cdktn/provider-aws/lib/s3-bucket-server-side-encryption-configuration/index.js";
import { Construct } from "constructs";

export interface DataBucketProps {
  readonly name: string;
  readonly kmsKeyArn: string;
  /** False only in the stack that is destroyed next. */
  readonly protected: boolean;
}

/** An upload that takes longer than this was given up; its parts cost money and are not readable. */
const INCOMPLETE_UPLOAD_DAYS = 3;

/** The bucket that holds a cluster's records. */
export class DataBucket extends Construct {
  readonly name: string;
  readonly arn: string;
  /** A reference: what is made with it waits for the bucket. */
  readonly id: string;

  constructor(scope: Construct, id: string, props: DataBucketProps) {
    super(scope, id);
    this.name = props.name;
    this.arn = `arn:aws:s3:::${props.name}`;
    const bucket = new S3Bucket(this, "bucket", {
      bucket: props.name,
      forceDestroy: !props.protected,
      lifecycle: { preventDestroy: props.protected },
    });
    this.id = bucket.id;
    const access = new S3BucketPublicAccessBlock(this, "closed", {
      bucket: bucket.id,
      blockPublicAcls: true,
      blockPublicPolicy: true,
      ignorePublicAcls: true,
      restrictPublicBuckets: true,
    });
    new S3BucketOwnershipControls(this, "owner", {
      bucket: bucket.id,
      rule: { objectOwnership: "BucketOwnerEnforced" },
    });
    new S3BucketServerSideEncryptionConfigurationA(this, "encryption", {
      bucket: bucket.id,
      rule: [
        {
          applyServerSideEncryptionByDefault: {
            sseAlgorithm: "aws:kms",
            kmsMasterKeyId: props.kmsKeyArn,
          },
          bucketKeyEnabled: true,
        },
      ],
    });
    new S3BucketLifecycleConfiguration(this, "lifecycle", {
      bucket: bucket.id,
      rule: [
        {
          id: "abort-incomplete-uploads",
          status: "Enabled",
          filter: [{ prefix: "" }],
          abortIncompleteMultipartUpload: [{ daysAfterInitiation: INCOMPLETE_UPLOAD_DAYS }],
        },
      ],
    });
    new S3BucketPolicy(this, "policy", {
      bucket: bucket.id,
      policy: JSON.stringify({
        Version: "2012-10-17",
        Statement: [
          {
            Sid: "TlsOnly",
            Effect: "Deny",
            Principal: "*",
            Action: "s3:*",
            Resource: [this.arn, `${this.arn}/*`],
            Condition: { Bool: { "aws:SecureTransport": "false" } },
          },
          {
            Sid: "NewTlsOnly",
            Effect: "Deny",
            Principal: "*",
            Action: "s3:*",
            Resource: [this.arn, `${this.arn}/*`],
            Condition: { NumericLessThan: { "s3:TlsVersion": "1.2" } },
          },
        ],
      }),
      // S3 refuses a policy while the public access block is being changed.
      dependsOn: [access],
    });
  }
}
