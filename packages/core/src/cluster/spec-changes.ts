import type { Cluster } from "@millrace/domain";

/** One field of the spec that a change sets; null where there is no value before or after. */
export interface SpecFieldChange {
  /** The API's name of the field; a label is `labels.<name>`. */
  readonly field: string;
  readonly before: string | null;
  readonly after: string | null;
}

/**
 * Fields that a change sets and that no plan shows: on this machine a new name or label touches
 * nothing but the cluster's row.
 */
export function specChanges(before: Cluster, after: Cluster): SpecFieldChange[] {
  const labels = [...new Set([...Object.keys(before.labels), ...Object.keys(after.labels)])].sort();
  return [
    { field: "name", before: before.name, after: after.name },
    { field: "size", before: before.size, after: after.size },
    {
      field: "deletion_protection",
      before: String(before.deletionProtection),
      after: String(after.deletionProtection),
    },
    {
      field: "plaintext_listener",
      before: String(before.plaintextListener),
      after: String(after.plaintextListener),
    },
    { field: "brokers", before: String(before.brokers), after: String(after.brokers) },
    ...labels.map((label) => ({
      field: `labels.${label}`,
      before: before.labels[label] ?? null,
      after: after.labels[label] ?? null,
    })),
  ].filter((change) => change.before !== change.after);
}
