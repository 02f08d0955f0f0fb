/** A recovery as a plan: what somebody approves is exactly the loss that the report names. */
import { createHash } from "node:crypto";
import { MISSING_SHOWN_MAX, type MissingRecords, type RecoveryReport } from "@millrace/domain";
import { type ChangePlan, changePlan, type PlannedChange } from "./change-plan.ts";
import { ProvisionError } from "./cluster-driver.ts";

const PLAN_ID = /^recover-(?:(vol-[0-9a-z]+)-)?[0-9a-f]{16}$/;

export function isRecoveryPlanId(planId: string): boolean {
  return PLAN_ID.test(planId);
}

/** The volume that the plan was made for; undefined where it names none. */
export function volumeOfPlan(planId: string): string | undefined {
  return PLAN_ID.exec(planId)?.[1];
}

/**
 * The plan of a report, as `millrace recover --json` writes it. With the EBS volume that the report is
 * about, the plan and so its approval hold for that volume only. Throws `plan_failed`.
 */
export function recoveryPlan(json: string, volume?: string): ChangePlan {
  const { report, missing } = readReport(json);
  const metadata = metadataChange(report, missing, volume);
  const plan = changePlan("", [metadata, ...report.missing.map(loss)]);
  const id = ["recover", volume, plan.digest.slice(0, 16)].filter(Boolean).join("-");
  return { ...plan, id, diff: withoutLine(plan.diff, MISSING_HASH), recovery: report };
}

/** It makes the digest differ, and says nothing to a reader. */
const MISSING_HASH = "missing_sha256";

function withoutLine(text: string, name: string): string {
  return text.replace(new RegExp(`^ *${name} = .*\n`, "m"), "");
}

function metadataChange(
  report: RecoveryReport,
  missing: readonly MissingRecords[],
  volume: string | undefined,
): PlannedChange {
  const all = createHash("sha256").update(JSON.stringify(missing)).digest("hex");
  const values: Record<string, string> = {
    ...(volume !== undefined && { volume }),
    source: report.source,
    recovered_to: report.recoveredTo,
    topics: String(report.topics),
    partitions: String(report.partitions),
    records_from_wal: report.recordsFromWal,
    partitions_with_missing_records: String(report.missingPartitions),
    // The list is cut; an approval is for all of it.
    [MISSING_HASH]: all,
  };
  const attributes = Object.entries(values).map(([name, after]) => ({ name, before: null, after }));
  return { address: "metadata", type: "metadata", action: "replace", attributes };
}

function loss({ topic, partition, ...range }: MissingRecords): PlannedChange {
  const { fromOffset, toOffset, acknowledgedBy } = range;
  const before = `${fromOffset} to ${toOffset} (exclusive), acknowledged before ${acknowledgedBy}`;
  const attributes = [{ name: "offsets", before, after: null }];
  return {
    address: partitionOf({ topic, partition }),
    type: "records",
    action: "delete",
    attributes,
  };
}

function partitionOf({ topic, partition }: Pick<MissingRecords, "topic" | "partition">): string {
  return `${topic}-${partition}`;
}

interface ReadReport {
  readonly report: RecoveryReport;
  /** All of them. */
  readonly missing: readonly MissingRecords[];
}

function readReport(json: string): ReadReport {
  try {
    const raw = new Fields(JSON.parse(json));
    const missing = raw.list("missing").map((entry): MissingRecords => {
      const fields = new Fields(entry);
      return {
        topic: fields.text("topic"),
        partition: fields.count("partition"),
        fromOffset: fields.int64("from_offset"),
        toOffset: fields.int64("to_offset"),
        acknowledgedBy: fields.text("acknowledged_by"),
      };
    });
    const source = raw.text("source");
    if (source !== "bucket" && source !== "bucket+wal") throw new Error(`unknown source ${source}`);
    const report: RecoveryReport = {
      source,
      recoveredTo: raw.text("recovered_to"),
      topics: raw.count("topics"),
      partitions: raw.count("partitions"),
      recordsFromWal: raw.int64("records_from_wal"),
      bytesFromWal: raw.int64("bytes_from_wal"),
      missing: missing.slice(0, MISSING_SHOWN_MAX),
      missingPartitions: new Set(missing.map(partitionOf)).size,
      warnings: raw.list("warnings").map(String),
    };
    return { report, missing };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ProvisionError("plan_failed", `the recovery report is not readable: ${reason}`, {
      cause,
      detail: json.slice(0, 2_000),
    });
  }
}

/** The fields of an object in a report. Each throws where the field is absent or of another type. */
class Fields {
  readonly #values: Map<string, unknown>;

  constructor(value: unknown) {
    if (typeof value !== "object" || value === null) throw new Error("an object is expected");
    this.#values = new Map(Object.entries(value));
  }

  text(name: string): string {
    const value = this.#values.get(name);
    if (typeof value !== "string") throw new Error(`${name} is not a string`);
    return value;
  }

  list(name: string): readonly unknown[] {
    const value = this.#values.get(name);
    if (!Array.isArray(value)) throw new Error(`${name} is not a list`);
    return value;
  }

  count(name: string): number {
    const value = Number(this.int64(name));
    if (!Number.isSafeInteger(value)) throw new Error(`${name} is too large`);
    return value;
  }

  /** A 64-bit integer; the report writes those as strings. */
  int64(name: string): string {
    const text = String(this.#values.get(name));
    if (!/^\d{1,19}$/.test(text)) throw new Error(`${name} is not a whole number`);
    return text;
  }
}
