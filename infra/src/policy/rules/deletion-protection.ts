import { blocks, isTrue, type PolicyResource } from "../document.ts";
import { each, type PolicyRule } from "../rule.ts";
import { HOLDS_DATA } from "./data-loss.ts";

/** Resources with data are destroyed only by the deletion of their owner, not by a change of the stack. */
export const deletionProtection: PolicyRule = {
  name: "deletion-protection",
  check: (document, { kind, purge = false }) => [
    ...(document.source === "plan" || purge
      ? []
      : each(document, HOLDS_DATA, (resource) =>
          preventsDestroy(resource) ? undefined : "set lifecycle.prevent_destroy to true",
        )),
    ...each(document, ["aws_s3_bucket"], ({ values }) =>
      values.force_destroy === true && !purge
        ? "leave force_destroy to the purge: it deletes every object with the bucket"
        : undefined,
    ),
    ...each(document, ["aws_db_instance"], ({ values }) => [
      ...(purge || isTrue(values.deletion_protection) ? [] : ["set deletion_protection to true"]),
      ...(!purge && values.skip_final_snapshot === true
        ? ["set skip_final_snapshot to false"]
        : []),
    ]),
    // A cluster's load balancer is deleted with the cluster; the control plane's is its address.
    ...(kind === "cluster"
      ? []
      : each(document, ["aws_lb"], ({ values }) =>
          isTrue(values.enable_deletion_protection)
            ? undefined
            : "set enable_deletion_protection to true",
        )),
    ...each(document, ["aws_kms_key"], ({ values }) =>
      Number(values.deletion_window_in_days ?? KMS_WINDOW_DAYS_DEFAULT) >= KMS_WINDOW_DAYS_MIN
        ? undefined
        : `set deletion_window_in_days to ${KMS_WINDOW_DAYS_MIN} or more`,
    ),
  ],
};

/** AWS's default and minimum number of days in which a key's deletion can be cancelled. */
const KMS_WINDOW_DAYS_DEFAULT = 30;
const KMS_WINDOW_DAYS_MIN = 7;

function preventsDestroy({ values }: PolicyResource): boolean {
  return blocks(values, "lifecycle").some((lifecycle) => isTrue(lifecycle.prevent_destroy));
}
