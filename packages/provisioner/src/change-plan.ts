/**
 * What would change: the answer to `validate_only`, what an approver sees, and what is kept with an
 * operation. It is plain data, bounded, and free of secrets.
 */
import { createHash } from "node:crypto";
import type { RecoveryReport } from "@millrace/domain";

/** Why a plan is made. */
export type PlanPurpose = "apply" | "pause" | "destroy" | "purge" | "drift" | "recover";

export type ChangeAction = "create" | "update" | "replace" | "delete" | "read" | "import";

export interface AttributeChange {
  /** Path of the attribute, such as `throughput` or `tag[0].value`. */
  readonly name: string;
  /** Text of the value; null where there is or was none. Secrets read `(sensitive)`. */
  readonly before: string | null;
  /** As `before`; `(known after apply)` where nobody can tell yet. */
  readonly after: string | null;
}

export interface PlannedChange {
  /** Where it stands in the stack, such as `aws_ebs_volume.slot-0-wal`. */
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
  /** Names the kept plan; `apply` takes exactly it. */
  readonly id: string;
  readonly changes: readonly PlannedChange[];
  readonly summary: ChangeSummary;
  readonly findings: readonly PolicyFinding[];
  /** Text for people, at most `DIFF_BYTES_MAX`. */
  readonly diff: string;
  /** SHA-256 over the changes, hexadecimal: the same plan made again has the same digest. */
  readonly digest: string;
  /** Of a plan that recovers a broker: what comes back and what is missing. */
  readonly recovery?: RecoveryReport;
}

/** One line of what a run does, for an operation's log. */
export interface RunEvent {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly level: "info" | "warning" | "error";
  readonly message: string;
  /** What it is about, where it is about one thing. */
  readonly address?: string;
  readonly kind: RunEventKind;
}

export type RunEventKind =
  /** A step of the run itself: began, ended, was interrupted. */
  | "run"
  /** A resource's change began. */
  | "start"
  /** A resource's change goes on. */
  | "progress"
  /** A resource's change is done. */
  | "done"
  /** A diagnostic. */
  | "diagnostic";

/** Says which attempt of which operation acts: writes of an older attempt are refused. */
export interface RunFence {
  readonly operationId: string;
  readonly attempt: number;
}

export interface RunOptions {
  readonly onEvent?: (event: RunEvent) => void;
  /** Interrupts the run in good order; nothing is undone. */
  readonly signal?: AbortSignal;
  /** Absent only outside operations, where nothing is changed. */
  readonly fence?: RunFence;
  /**
   * Called, and waited for, before the first data of the cluster is destroyed, once all that may
   * refuse to has been looked at: what is left from then on is not whole. Where it throws, nothing is
   * destroyed and the error goes to the caller.
   */
  readonly onDestroying?: () => Promise<void>;
}

export interface PlanOptions extends RunOptions {
  readonly purpose: PlanPurpose;
  /** Without any account and without what exists: everything is to be created. Kept nowhere. */
  readonly offline?: boolean;
}

export interface SweptResource {
  /** The provider's own name of it: an ARN or a path. */
  readonly id: string;
  /** Where it belongs in the stack, where that is known. */
  readonly address: string | undefined;
}

/** What a sweep found that was not on record. */
export interface SweepReport {
  /** Taken on record. */
  readonly imported: readonly SweptResource[];
  readonly removed: readonly SweptResource[];
  /** Left alone, because it may hold data and nothing says where it belongs. */
  readonly left: readonly SweptResource[];
}

/** A diff beyond this is cut, with a note of how much is missing. */
export const DIFF_BYTES_MAX = 64 * 1024;
/** More attributes of one change are not listed: their number and hash are. */
const ATTRIBUTES_MAX = 200;
/** A longer value is cut: policies and user data have their own place. Its length and hash are told. */
const VALUE_CHARACTERS_MAX = 2_000;
/** Room for what is told of the rest, so that what was bounded once is not cut again. */
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

/** Order of changes and attributes is the planner's and may differ between runs. */
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
 * What is cut leaves its hash behind: changes that are alike once they are bounded were alike before,
 * which approvals rely on.
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

/** What a new thing gets by itself says nothing to a reader, and is most of its attributes. */
function isUntold({ before, after }: AttributeChange): boolean {
  return before === null && (after === null || after === "(known after apply)");
}

function attributeLine({ name, before, after }: AttributeChange): string {
  const oneLine = (value: string | null) => (value === null ? "(none)" : JSON.stringify(value));
  if (before === null) return `${name} = ${oneLine(after)}`;
  return `${name}: ${oneLine(before)} → ${oneLine(after)}`;
}
