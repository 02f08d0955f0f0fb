import type { PolicyRule } from "../rule.ts";

/** Types whose deletion or replacement loses data permanently. */
export const HOLDS_DATA: readonly string[] = [
  "aws_db_instance",
  "aws_ebs_volume",
  "aws_efs_file_system",
  "aws_kms_key",
  "aws_s3_bucket",
];

/**
 * Broker builds, which instances download at every start. A replaced build is uploaded again under its key, as
 * after a failed upload.
 */
const BUILD = "aws_s3_object";

/** Only a purge deletes or replaces resources with data, but for those that a change may delete. */
export const dataLoss: PolicyRule = {
  name: "data-loss",
  check: (document, { purge = false, leaving = [] }) =>
    purge
      ? []
      : document.deletions
          .filter(
            ({ type, replaced, address }) =>
              (HOLDS_DATA.includes(type) && (replaced || !leaving.includes(address))) ||
              (type === BUILD && !replaced),
          )
          .map(({ address, replaced }) => ({
            address,
            message: replaced
              ? "the change would replace it and lose what it holds: take the change back"
              : "the change would delete it and what it holds: only the cluster's purge may",
          })),
};
