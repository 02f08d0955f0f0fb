import { blocks, isSet, isTrue } from "../document.ts";
import { each, type PolicyRule, referring } from "../rule.ts";

/** Types that are encrypted where one attribute is true. */
const BY_FLAG: Readonly<Record<string, string>> = {
  aws_db_instance: "storage_encrypted",
  aws_ebs_volume: "encrypted",
  aws_efs_file_system: "encrypted",
};
/** Types that AWS encrypts with a key of its own unless one is named; ours must be named. */
const BY_KEY: Readonly<Record<string, string>> = {
  aws_cloudwatch_log_group: "kms_key_id",
  aws_secretsmanager_secret: "kms_key_id",
  aws_sns_topic: "kms_master_key_id",
};

/** Everything that stores bytes is encrypted, with a key that the installation or the tenant owns. */
export const encryptionAtRest: PolicyRule = {
  name: "encryption-at-rest",
  check: (document) => [
    ...each(document, Object.keys(BY_FLAG), ({ type, values }) => {
      const flag = BY_FLAG[type] as string;
      return isTrue(values[flag]) ? undefined : `set ${flag} to true`;
    }),
    ...each(document, Object.keys(BY_KEY), ({ type, values }) => {
      const key = BY_KEY[type] as string;
      return isSet(values[key]) ? undefined : `name a KMS key in ${key}`;
    }),
    ...each(document, ["aws_launch_template"], ({ values }) => {
      const devices = blocks(values, "block_device_mappings");
      if (devices.length === 0) {
        return "map the root device with ebs.encrypted = true; the image decides otherwise";
      }
      return devices
        .flatMap((device) => blocks(device, "ebs"))
        .every((ebs) => isTrue(ebs.encrypted))
        ? undefined
        : "set ebs.encrypted to true for every device";
    }),
    ...each(document, ["aws_s3_bucket"], (bucket) =>
      referring(document, "aws_s3_bucket_server_side_encryption_configuration", "bucket", bucket)
        .length > 0
        ? undefined
        : "add an aws_s3_bucket_server_side_encryption_configuration",
    ),
    ...each(document, ["aws_ecr_repository"], ({ values }) =>
      blocks(values, "encryption_configuration").some((block) => block.encryption_type === "KMS")
        ? undefined
        : "set encryption_configuration.encryption_type to KMS",
    ),
    ...each(document, ["aws_kms_key"], ({ values }) =>
      isTrue(values.enable_key_rotation) ? undefined : "set enable_key_rotation to true",
    ),
  ],
};
