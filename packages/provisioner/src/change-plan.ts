/**
 * Planned changes: the answer to `validate_only`, shown to the approver and stored with the operation. Plain
 * data, bounded and without secrets.
 */
import { createHash } from "node:crypto";
import type { RecoveryReport } from "@millrace/domain";

/** The purpose of a plan. */
export type PlanPurpose = "apply" | "pause" | "destroy" | "purge" | "drift" | "recover";

export type ChangeAction = "create" | "update" | "replace" | "delete" | "read" | "import";

export interface AttributeChange {
  /** Path of the attribute, such as `throughput` or `tag[0].value`. */
  readonly name: string;
  /** Text of the value; null where there is or was none. Secrets read `(sensitive)`. */
  readonly before: string | null;
  /** As `before`; `(known after apply)` if not known yet. */
  readonly after: string | null;
}

export interface PlannedChange {
  /** Terraform address in the stack, such as `aws_ebs_volume.slot-0-wal`. */
  readonly address: string;
  /** Kind of thing, such as `aws_ebs_volume` or `process`. */
  readonly type: string;
  readonly action: ChangeAction;
  readonly attributes: readonly AttributeChange[];
}

export interface PolicyFinding {
  /** Stable name of the rule. */
  readonly rule: string;
  readonly severity: "error" | "warning";
  /** Address of what breaks it. */
  readonly address: string;
  readonly message: string;
}

export interface ChangeSummary {
  readonly create: number;
  readonly update: number;
  readonly replace: number;
  readonly delete: number;
  readonly import: number;
}

export interface ChangePlan {
  /** Id of the stored plan; `apply` applies exactly this one. */
  readonly id: string;
  readonly changes: readonly PlannedChange[];
  readonly summary: ChangeSummary;
  readonly findings: readonly PolicyFinding[];
  /** Text for people, at most `DIFF_BYTES_MAX`. */
  readonly diff: string;
  /** SHA-256 over the changes, hexadecimal: the same changes have the same digest. */
  readonly digest: string;
  /** Of a plan that recovers a broker: what comes back and what is missing. */
  readonly recovery?: RecoveryReport;
}

/** One event of a run, for an operation's log. */
export interface RunEvent {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly level: "info" | "warning" | "error";
  readonly message: string;
  /** The resource, if the event is about one. */
  readonly address?: string;
  readonly kind: RunEventKind;
}

export type RunEventKind =
  /** A step of the run itself: started, ended, was interrupted. */
  | "run"
  /** A resource's change started. */
  | "start"
  /** A resource's change is in progress. */
  | "progress"
  /** A resource's change is done. */
  | "done"
  /** A diagnostic. */
  | "diagnostic";

/** Identifies the attempt of an operation: writes of an older attempt are rejected. */
export interface RunFence {
  readonly operationId: string;
  readonly attempt: number;
}

export interface RunOptions {
  readonly onEvent?: (event: RunEvent) => void;
  /** Interrupts the run gracefully; nothing is undone. */
  readonly signal?: AbortSignal;
  /** Absent only outside operations, which change nothing. */
  readonly fence?: RunFence;
  /**
   * Called and awaited before the first data of the cluster is destroyed, after all checks have passed: from
   * then on the data is incomplete. If it throws, nothing is destroyed and the caller gets the error.
   */
  readonly onDestroying?: () => Promise<void>;
}

export interface PlanOptions extends RunOptions {
  readonly purpose: PlanPurpose;
  /** Without an account and existing resources: everything is to be created. Not stored. */
  readonly offline?: boolean;
}

export interface SweptResource {
  /** The provider's id: an ARN or a path. */
  readonly id: string;
  /** Its address in the stack, if known. */
  readonly address: string | undefined;
}

/** Resources that a sweep found and that were not recorded. */
export interface SweepReport {
  /** Imported. */
  readonly imported: readonly SweptResource[];
  readonly removed: readonly SweptResource[];
  /** Left alone, because they may hold data and have no address. */
  readonly left: readonly SweptResource[];
}

/** A diff beyond this is cut, with a note of how much is missing. */
export const DIFF_BYTES_MAX = 64 * 1024;
/** Attributes listed per change; of further ones only number and hash. */
const ATTRIBUTES_MAX = 200;
/** A longer value, such as a policy or user data, is cut; its length and hash follow. */
const VALUE_CHARACTERS_MAX = 2_000;
/** Room for that note, so that a value that was cut once is not cut again. */
const NOTE_CHARACTERS_MAX = 120;

const SIGNS: Record<ChangeAction, string> = {
  create: "+",
  update: "~",
  replace: "±",
  delete: "-",
  read: "<",
  import: "→",
};

/** A plan of these changes, bounded, with its summary, diff and digest. */
export function changePlan(
  id: string,
  changes: readonly PlannedChange[],
  findings: readonly PolicyFinding[] = [],
): ChangePlan {
  const bounded = changes.map(boundedChange);
  return {
    id,
    changes: bounded,
    summary: summaryOf(bounded),
    findings,
    diff: diffOf(bounded),
    digest: sha256(canonical(changes)),
  };
}

export function isEmptyPlan({ changes }: ChangePlan): boolean {
  return changes.every((change) => change.action === "read");
}

function summaryOf(changes: readonly PlannedChange[]): ChangeSummary {
  const count = (action: ChangeAction) =>
    changes.filter((change) => change.action === action).length;
  return {
    create: count("create"),
    update: count("update"),
    replace: count("replace"),
    delete: count("delete"),
    import: count("import"),
  };
}

/** The planner's order of changes and attributes may differ between runs. */
function canonical(changes: readonly PlannedChange[]): string {
  const lines = changes.map((change) =>
    JSON.stringify([
      change.address,
      change.type,
      change.action,
      sortedAttributes(change.attributes),
    ]),
  );
  return lines.sort().join("\n");
}

function sortedAttributes(attributes: readonly AttributeChange[]): string[] {
  return attributes.map(({ name, before, after }) => JSON.stringify([name, before, after])).sort();
}

/**
 * A cut part leaves its hash: changes that are equal after bounding were equal before. Approvals rely on it.
 */
function boundedChange(change: PlannedChange): PlannedChange {
  const isBounded = change.attributes.length <= ATTRIBUTES_MAX + 1;
  const kept = isBounded ? change.attributes : change.attributes.slice(0, ATTRIBUTES_MAX);
  const shown = kept.map(({ name, before, after }) => ({
    name,
    before: boundedValue(before),
    after: boundedValue(after),
  }));
  if (isBounded) return { ...change, attributes: shown };
  const missing = change.attributes.slice(ATTRIBUTES_MAX);
  const hash = sha256(sortedAttributes(missing).join("\n"));
  const note = `${missing.length} more attributes, SHA-256 ${hash}`;
  return { ...change, attributes: [...shown, { name: "…", before: null, after: note }] };
}

function boundedValue(value: string | null): string | null {
  if (value === null || value.length <= VALUE_CHARACTERS_MAX + NOTE_CHARACTERS_MAX) return value;
  const missing = value.length - VALUE_CHARACTERS_MAX;
  const note = `… (${missing} more characters, SHA-256 ${sha256(value)})`;
  return `${value.slice(0, VALUE_CHARACTERS_MAX)}${note}`;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function diffOf(changes: readonly PlannedChange[]): string {
  const parts = changes.map((change) => {
    const lines = change.attributes
      .filter((attribute) => !isUntold(attribute))
      .map((attribute) => `    ${attributeLine(attribute)}`);
    return [`${SIGNS[change.action]} ${change.address} (${change.action})`, ...lines].join("\n");
  });
  const text = parts.length === 0 ? "No changes.\n" : `${parts.join("\n\n")}\n`;
  const bytes = Buffer.from(text);
  if (bytes.length <= DIFF_BYTES_MAX) return text;
  const note = `\n… cut: ${bytes.length} bytes in all\n`;
  const kept = bytes.subarray(0, DIFF_BYTES_MAX - Buffer.byteLength(note)).toString("utf8");
  // A character that the cut went through decodes to U+FFFD at the end, or to nothing.
  return `${kept.replace(/\uFFFD+$/, "")}${note}`;
}

/** Default values of a new resource are most of its attributes and say nothing to a reader. */
function isUntold({ before, after }: AttributeChange): boolean {
  return before === null && (after === null || after === "(known after apply)");
}

function attributeLine({ name, before, after }: AttributeChange): string {
  const oneLine = (value: string | null) => (value === null ? "(none)" : JSON.stringify(value));
  if (before === null) return `${name} = ${oneLine(after)}`;
  return `${name}: ${oneLine(before)} → ${oneLine(after)}`;
}
