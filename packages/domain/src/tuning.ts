import { byteText } from "./byte-text.ts";
import { DomainError, type FieldError } from "./error.ts";
import type { ClusterId, TuningChangeId } from "./id.ts";
import type { Principal } from "./principal.ts";
import { type ClusterSizing, sizingOf } from "./size.ts";
import { type WalOwner, walCapacityOf } from "./wal-capacity.ts";

const MIB = 1024 ** 2;

/** What a tenant can set on a cluster while it runs. Units stand last in the name. */
export const TUNING_KNOBS = [
  "block_cache_bytes",
  "prefetch_max_bytes",
  "ingress_baseline_bytes_per_second",
  "egress_baseline_bytes_per_second",
  "wal_cache_bytes",
  "upload_threshold_bytes",
] as const;
export type TuningKnob = (typeof TUNING_KNOBS)[number];

/** The broker's name of each knob. */
export const TUNING_PROPERTIES = {
  block_cache_bytes: "s3.block.cache.size",
  prefetch_max_bytes: "s3.prefetch.max.bytes",
  ingress_baseline_bytes_per_second: "s3.network.ingress.baseline.bandwidth",
  egress_baseline_bytes_per_second: "s3.network.egress.baseline.bandwidth",
  wal_cache_bytes: "s3.wal.cache.size",
  upload_threshold_bytes: "s3.wal.upload.threshold",
} as const satisfies Record<TuningKnob, string>;

export type TuningUnit = "bytes" | "bytes_per_second";

/** A value for every setting; whole numbers. A baseline of 0 is unlimited, as in the broker. */
export type TuningValues = Readonly<Record<TuningKnob, number>>;

/**
 * What a tenant has asked for. `null` is the size's default, asked for by name; a knob that is
 * absent was never asked for, and stays as the broker has it.
 */
export type TuningOverrides = Readonly<Partial<Record<TuningKnob, number | null>>>;

/** The desired tuning of one cluster and how far the broker has followed it. */
export interface Tuning {
  readonly overrides: TuningOverrides;
  /** Counts changes; 0 where there was none. */
  readonly version: number;
  /** The newest version that the broker is known to have taken. */
  readonly appliedVersion: number;
  /** Why the broker does not take the current version, where it refuses. */
  readonly problem: string | undefined;
  readonly updatedAt: Date | undefined;
}

export const UNTOUCHED_TUNING: Tuning = {
  overrides: {},
  version: 0,
  appliedVersion: 0,
  problem: undefined,
  updatedAt: undefined,
};

/** Who changed something, by the name that they had then. */
export interface Changer {
  readonly kind: "user" | "api_key";
  readonly id: string;
  readonly name: string;
}

export interface KnobChange {
  readonly knob: TuningKnob;
  readonly from: number;
  readonly to: number;
  /** Whether `to` is the default, asked for as such. */
  readonly toDefault: boolean;
  /** Whether `from` was the default, and nobody had asked for another value. Absent in changes recorded before it existed. */
  readonly fromDefault?: boolean;
}

/** One line of a cluster's tuning history, which is only ever added to. */
export interface TuningChange {
  readonly id: TuningChangeId;
  readonly clusterId: ClusterId;
  /** The version that the change made; dense from 1 per cluster. */
  readonly version: number;
  readonly by: Changer;
  readonly changes: readonly KnobChange[];
  /** The earlier change whose settings this one restored. */
  readonly reverts: RevertedChange | undefined;
  readonly createdAt: Date;
}

export interface RevertedChange {
  readonly id: TuningChangeId;
  readonly version: number;
}

/** The patch that restores what a change replaced. */
export function revertPatch(cluster: WalOwner, changes: readonly KnobChange[]): TuningOverrides {
  const defaults = tuningDefaults(cluster);
  const entries = changes.map(({ knob, from, fromDefault = from === defaults[knob] }) => [
    knob,
    fromDefault ? null : from,
  ]);
  return Object.fromEntries(entries);
}

/** Whether the principal is a person or a key, with the id of it. */
export function changerOf(principal: Principal, name: string): Changer {
  if (principal.apiKeyId !== undefined) return { kind: "api_key", id: principal.apiKeyId, name };
  return { kind: "user", id: principal.userId ?? "", name };
}

/** Inclusive bounds with their reason in one or two sentences. */
export interface KnobBounds {
  readonly min: number;
  readonly max: number;
  readonly reason: string;
}

/**
 * Share of a size's memory that both caches may take: the rest holds connections, requests under
 * way, uploads and indexes.
 */
const CACHES_SHARE = 0.75;
/** A cache below this holds too few blocks (512 KiB each) to serve readers side by side. */
const BLOCK_CACHE_MIN = 16 * MIB;
/** Room for one upload of the smallest size and the appends meanwhile. */
const WAL_CACHE_MIN = 16 * MIB;
/** Smaller objects cost more requests than the waiting saves. */
const UPLOAD_THRESHOLD_MIN = MIB;
const PREFETCH_DEFAULT = 32 * MIB;
/** Nothing is read ahead. */
const PREFETCH_MIN = 0;
/** One reader that runs this far ahead hides any latency of a bucket; more only keeps others out. */
const PREFETCH_MAX = 256 * MIB;
/** The network is given out in parts of this size; less would be a part in more than a second. */
const BASELINE_MIN = MIB;
/** 100 Gbit/s, more than a machine that holds a broker has. */
const BASELINE_MAX = 12_500_000_000;

export function tuningUnit(knob: TuningKnob): TuningUnit {
  return knob.endsWith("_per_second") ? "bytes_per_second" : "bytes";
}

export function isBaseline(knob: TuningKnob): boolean {
  return tuningUnit(knob) === "bytes_per_second";
}

export function tuningDefaults(cluster: WalOwner): TuningValues {
  const sizing = sizingOf(cluster.size);
  return {
    block_cache_bytes: sizing.blockCacheBytes,
    prefetch_max_bytes: PREFETCH_DEFAULT,
    ingress_baseline_bytes_per_second: 0,
    egress_baseline_bytes_per_second: 0,
    wal_cache_bytes: sizing.walCacheBytes,
    // A cluster that was created in a smaller size keeps its smaller log.
    upload_threshold_bytes: Math.min(sizing.uploadThresholdBytes, halfOfWal(cluster)),
  };
}

function halfOfWal(cluster: WalOwner): number {
  return Math.floor(walCapacityOf(cluster) / 2);
}

/** The value of each knob: its override, or the size's default. */
export function desiredTuning(cluster: WalOwner, overrides: TuningOverrides): TuningValues {
  const values: Record<TuningKnob, number> = { ...tuningDefaults(cluster) };
  for (const knob of TUNING_KNOBS) values[knob] = overrides[knob] ?? values[knob];
  return values;
}

/** Bounds of every knob while the others are as in `values`. */
export function tuningBounds(
  cluster: WalOwner,
  values: TuningValues,
): Readonly<Record<TuningKnob, KnobBounds>> {
  const sizing = sizingOf(cluster.size);
  const baseline = {
    min: BASELINE_MIN,
    max: BASELINE_MAX,
    reason:
      `0 = unlimited; minimum ${byteText(BASELINE_MIN)} per second, the unit in which bandwidth is ` +
      "allocated; maximum 100 Gbit/s.",
  };
  return {
    block_cache_bytes: blockCacheBounds(sizing, values),
    prefetch_max_bytes: {
      min: PREFETCH_MIN,
      max: PREFETCH_MAX,
      reason:
        `${PREFETCH_MIN} = no prefetch; maximum ${byteText(PREFETCH_MAX)}: a larger window of one ` +
        "reader would evict blocks of others.",
    },
    ingress_baseline_bytes_per_second: baseline,
    egress_baseline_bytes_per_second: baseline,
    wal_cache_bytes: walCacheBounds(sizing, values),
    upload_threshold_bytes: uploadThresholdBounds(cluster, values),
  };
}

function cachesBudget(sizing: ClusterSizing): number {
  return Math.floor(sizing.memoryBytes * CACHES_SHARE);
}

function budgetReason(sizing: ClusterSizing, other: string, otherBytes: number): string {
  return (
    `both caches may use ${CACHES_SHARE * 100}\u00a0% of the memory of size ${sizing.title} ` +
    `(${byteText(sizing.memoryBytes)}), and ${other} uses ${byteText(otherBytes)}`
  );
}

function blockCacheBounds(sizing: ClusterSizing, values: TuningValues): KnobBounds {
  const max = Math.max(BLOCK_CACHE_MIN, cachesBudget(sizing) - values.wal_cache_bytes);
  return {
    min: BLOCK_CACHE_MIN,
    max,
    reason:
      `Minimum ${byteText(BLOCK_CACHE_MIN)}, enough for several readers in parallel; maximum ` +
      `${byteText(max)}, because ${budgetReason(sizing, "wal_cache_bytes", values.wal_cache_bytes)}.`,
  };
}

function walCacheBounds(sizing: ClusterSizing, values: TuningValues): KnobBounds {
  const min = Math.max(WAL_CACHE_MIN, values.upload_threshold_bytes);
  const max = Math.max(min, cachesBudget(sizing) - values.block_cache_bytes);
  const least =
    min === values.upload_threshold_bytes
      ? "the value of upload_threshold_bytes"
      : "enough for an upload and the appends during it";
  return {
    min,
    max,
    reason:
      `Minimum ${byteText(min)}, ${least}; maximum ${byteText(max)}, because ` +
      `${budgetReason(sizing, "block_cache_bytes", values.block_cache_bytes)}.`,
  };
}

function uploadThresholdBounds(cluster: WalOwner, values: TuningValues): KnobBounds {
  const half = halfOfWal(cluster);
  const max = Math.min(values.wal_cache_bytes, half);
  const most =
    max === half
      ? `half of the write-ahead log of ${byteText(walCapacityOf(cluster))}, so that it accepts appends ` +
        "during an upload"
      : "the value of wal_cache_bytes";
  return {
    min: UPLOAD_THRESHOLD_MIN,
    max,
    reason:
      `Minimum ${byteText(UPLOAD_THRESHOLD_MIN)}, because smaller objects need too many requests; ` +
      `maximum ${byteText(max)}, ${most}. Values above a quarter of wal_cache_bytes have no effect.`,
  };
}

/**
 * Throws `tuning_refused` where a knob of `changed` is not within `bounds`, which belong to
 * `values`: each with its pointer, its bound and the reason.
 */
function assertWithinBounds(
  values: TuningValues,
  bounds: Readonly<Record<TuningKnob, KnobBounds>>,
  changed: readonly TuningKnob[],
): void {
  const fields = changed.flatMap((knob) => fieldError(knob, values[knob], bounds[knob]) ?? []);
  if (fields.length > 0) throw tuningRefused(fields);
}

/** Throws as `assertWithinBounds` does, with the bounds that the cluster and the values give. */
export function checkTuning(
  cluster: WalOwner,
  values: TuningValues,
  changed: readonly TuningKnob[],
): void {
  assertWithinBounds(values, tuningBounds(cluster, values), changed);
}

/** Code of a value that may be within its bounds and is still refused. */
const NOT_WHOLE = "not_whole";

export function tuningRefused(fields: readonly FieldError[], cause?: unknown): DomainError {
  const [first] = fields;
  const detail = first
    ? `${first.pointer.slice(1)} ${first.message}`
    : "The setting is out of bounds.";
  const isAboutBounds = fields.some(({ code }) => code !== NOT_WHOLE);
  return new DomainError("tuning_refused", detail, {
    ...(isAboutBounds && {
      remedy: "Choose a value within the bounds. GET the tuning to see them with their reasons.",
    }),
    fields,
    cause,
  });
}

function fieldError(
  knob: TuningKnob,
  value: number,
  { min, max, reason }: KnobBounds,
): FieldError | undefined {
  const pointer = `/${knob}`;
  if (isBaseline(knob) && value === 0) return undefined;
  if (!Number.isSafeInteger(value) && value >= min && value <= max) {
    return {
      pointer,
      code: NOT_WHOLE,
      message: `must be a whole number, not ${value}.`,
    };
  }
  if (value < min) {
    return {
      pointer,
      code: "too_small",
      message: `must be at least ${min}, not ${value}. ${reason}`,
    };
  }
  if (value > max || !Number.isSafeInteger(value)) {
    return {
      pointer,
      code: "too_large",
      message: `must be at most ${max}, not ${value}. ${reason}`,
    };
  }
  return undefined;
}
