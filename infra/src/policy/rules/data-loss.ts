import type { PolicyRule } from "../rule.ts";

/** Types whose deletion or replacement loses bytes that nobody can bring back. */
export const HOLDS_DATA: readonly string[] = [
  "aws_db_instance",
  "aws_ebs_volume",
  "aws_efs_file_system",
  "aws_kms_key",
  "aws_s3_bucket",
];

/** No plan but a purge deletes or replaces what holds data. */
export const dataLoss: PolicyRule = {
  name: "data-loss",
  check: (document, { purge = false }) =>
    purge
      ? []
      : document.deletions
          .filter(({ type }) => HOLDS_DATA.includes(type))
          .map(({ address, replaced }) => ({
            address,
            message: replaced
              ? "the change would replace it and lose what it holds: take the change back"
              : "the change would delete it and what it holds: only the cluster's purge may",
          })),
};
