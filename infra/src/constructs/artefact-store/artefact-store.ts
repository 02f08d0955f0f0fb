import { EcrLifecyclePolicy } from "@cdktn/provider-aws/lib/ecr-lifecycle-policy/index.js";
import { EcrRepository } from "@cdktn/provider-aws/lib/ecr-repository/index.js";
import { S3BucketVersioningA } from "@cdktn/provider-aws/lib/s3-bucket-versioning/index.js";
import { S3Object } from "@cdktn/provider-aws/lib/s3-object/index.js";
import { Construct } from "constructs";
import { BROKER_BUILDS } from "../../iam/permissions-boundary.ts";
import { DataBucket } from "../data-bucket/data-bucket.ts";

export interface ArtefactStoreProps {
  readonly bucketName: string;
  /** Prefix of the repositories' names: `<prefix>/api`. */
  readonly repositoryPrefix: string;
  readonly images: readonly string[];
  readonly kmsKeyArn: string;
  readonly build: { readonly path: string; readonly sha256: string };
}

/** Images kept; older ones are not needed for a roll-back. */
const IMAGES_KEPT = 20;
/** Digits of the checksum that distinguish builds in an address. */
const ADDRESS_DIGITS = 12;

/** Storage for broker builds and the control plane's images. */
export class ArtefactStore extends Construct {
  readonly bucketName: string;
  readonly repositoryArns: readonly string[];
  /** Key of the build in the bucket: the checksum is part of it, so a key never changes content. */
  readonly buildKey: string;

  constructor(scope: Construct, id: string, props: ArtefactStoreProps) {
    super(scope, id);
    const { kmsKeyArn, build } = props;
    this.bucketName = props.bucketName;
    const bucket = new DataBucket(this, "builds", {
      name: props.bucketName,
      kmsKeyArn,
      protected: true,
    });
    new S3BucketVersioningA(this, "versions", {
      bucket: bucket.id,
      versioningConfiguration: { status: "Enabled" },
    });
    this.buildKey = `${BROKER_BUILDS}/${build.sha256}/millrace`;
    // Each build has its own address, so that a new build replaces none: clusters that have not changed since
    // still refer to an earlier one.
    new S3Object(this, `build-${build.sha256.slice(0, ADDRESS_DIGITS)}`, {
      bucket: bucket.id,
      key: this.buildKey,
      source: build.path,
      sourceHash: build.sha256,
      kmsKeyId: kmsKeyArn,
      serverSideEncryption: "aws:kms",
    });
    this.repositoryArns = props.images.map((image) => {
      const repository = new EcrRepository(this, image, {
        name: `${props.repositoryPrefix}/${image}`,
        imageTagMutability: "IMMUTABLE",
        imageScanningConfiguration: { scanOnPush: true },
        encryptionConfiguration: [{ encryptionType: "KMS", kmsKey: kmsKeyArn }],
      });
      new EcrLifecyclePolicy(this, `${image}-kept`, {
        repository: repository.name,
        policy: JSON.stringify({
          rules: [
            {
              rulePriority: 1,
              description: `Keep the newest ${IMAGES_KEPT}`,
              selection: {
                tagStatus: "any",
                countType: "imageCountMoreThan",
                countNumber: IMAGES_KEPT,
              },
              action: { type: "expire" },
            },
          ],
        }),
      });
      return repository.arn;
    });
  }
}
