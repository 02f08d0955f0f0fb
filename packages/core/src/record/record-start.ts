import type { RecordSelection } from "@millrace/broker-admin";
import { type FieldError, validationFailed } from "@millrace/domain";

const STARTS = ["newest", "offset", "time", "from", "cursor"] as const;

/** Throws `validation_failed` unless the selection has one start, and an offset one partition. */
export function assertOneStart(selection: RecordSelection): void {
  const given = STARTS.filter((name) => selection[name] !== undefined);
  const errors: FieldError[] = [];
  if (given.length > 1) {
    const message = `cannot be combined with ${given[0]}: send one of ${STARTS.join(", ")}`;
    errors.push(
      ...given.slice(1).map((name) => ({ pointer: `/${name}`, code: "conflict", message })),
    );
  }
  const isOnePartition = selection.partition !== undefined && !selection.partition.includes(",");
  if (selection.offset !== undefined && !isOnePartition) {
    const message =
      selection.partition === undefined
        ? "is required with offset: offsets are counted per partition"
        : "must be a single one with offset: offsets are counted per partition";
    errors.push({ pointer: "/partition", code: "required", message });
  }
  if (errors.length > 0) throw validationFailed(errors);
}
