import type { AwsInstance } from "./aws-instance.ts";
import type { FieldError } from "./error.ts";

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

export const WAL_VOLUME_TYPES = ["gp3", "io2"] as const;
export type WalVolumeType = (typeof WAL_VOLUME_TYPES)[number];

/** The volume of one broker slot: its write-ahead log and its metadata. */
export interface WalVolume {
  readonly type: WalVolumeType;
  readonly sizeGib: number;
  /** Writes per second that the volume grants. */
  readonly iops: number;
  /** MiB per second that a gp3 grants; an io2 derives it from its IOPS, so it has none. */
  readonly throughputMibps: number | undefined;
}

interface Range {
  readonly min: number;
  readonly max: number;
}

interface WalVolumeLimits {
  readonly title: string;
  readonly sizeGib: Range;
  readonly iops: Range;
  /** IOPS per GiB that EBS grants at most. */
  readonly iopsPerGib: number;
  readonly throughputMibps: Range | undefined;
  /** MiB per second for each IOPS: the most that EBS lets one ask for. */
  readonly throughputPerIops: number;
  /** What the price of the volume's size includes. */
  readonly includedIops: number;
  readonly includedThroughputMibps: number;
}

/** The log and what is kept beside it fit; EBS itself allows less. */
const SIZE_GIB_MIN = 8;
/**
 * A restart reads what was not uploaded: a TiB at 125 MiB/s would take more than two hours. EBS
 * itself allows 16 TiB.
 */
const SIZE_GIB_MAX = 1024;

/**
 * EBS's bounds for each type, below which the size has ours.
 * Source: Amazon EBS User Guide, "General Purpose SSD volumes" and "Provisioned IOPS SSD volumes".
 */
const WAL_VOLUME_LIMITS = {
  gp3: {
    title: "General purpose SSD (gp3)",
    sizeGib: { min: SIZE_GIB_MIN, max: SIZE_GIB_MAX },
    iops: { min: 3000, max: 16_000 },
    iopsPerGib: 500,
    throughputMibps: { min: 125, max: 1000 },
    throughputPerIops: 0.25,
    includedIops: 3000,
    includedThroughputMibps: 125,
  },
  io2: {
    title: "Provisioned IOPS SSD (io2 Block Express)",
    sizeGib: { min: SIZE_GIB_MIN, max: SIZE_GIB_MAX },
    iops: { min: 100, max: 64_000 },
    iopsPerGib: 1000,
    throughputMibps: undefined,
    throughputPerIops: 0.256,
    includedIops: 0,
    includedThroughputMibps: 0,
  },
} as const satisfies Record<WalVolumeType, WalVolumeLimits>;

export function walVolumeLimits(type: WalVolumeType): WalVolumeLimits {
  return WAL_VOLUME_LIMITS[type];
}

/** Everything that EBS or we would reject; pointers are relative to the volume. */
export function checkWalVolume(volume: WalVolume, instance: AwsInstance): FieldError[] {
  const limits = walVolumeLimits(volume.type);
  const errors = [
    outside(
      "/size_gib",
      volume.sizeGib,
      limits.sizeGib,
      "GiB",
      "a larger log makes restarts slower",
    ),
    outside("/iops", volume.iops, limits.iops, "IOPS", `the range of ${volume.type}`),
    aboveRatio(volume, limits),
    aboveInstance(volume, instance),
    ...throughputErrors(volume, limits),
  ];
  return errors.filter((error) => error !== undefined);
}

/** Why the volume cannot become `next` where it stands. A volume is never replaced: it is the log. */
export function checkWalVolumeChange(current: WalVolume, next: WalVolume): FieldError[] {
  if (next.sizeGib >= current.sizeGib) return [];
  const message =
    `must be at least ${current.sizeGib} GiB, the current size: a volume can only grow. A smaller ` +
    "one would be a new volume without the log.";
  return [{ pointer: "/size_gib", code: "cannot_shrink", message }];
}

/** What is paid for and cannot be used for long, in one sentence each. */
export function walVolumeWarnings(volume: WalVolume, instance: AwsInstance): string[] {
  const limits = walVolumeLimits(volume.type);
  const warnings: string[] = [];
  const baseline = Math.round(instance.ebsBaselineBytesPerSecond / MIB);
  const throughput = volume.throughputMibps ?? 0;
  if (throughput > Math.max(baseline, limits.includedThroughputMibps)) {
    warnings.push(
      `The volume provides ${throughput} MiB/s, but ${instance.type} sustains ${baseline} MiB/s to ` +
        "its volumes, and more only for 30 minutes a day. A larger size sustains more.",
    );
  }
  if (volume.iops > Math.max(instance.ebsBaselineIops, limits.includedIops)) {
    warnings.push(
      `The volume provides ${volume.iops} IOPS, but ${instance.type} sustains ` +
        `${instance.ebsBaselineIops}. A larger size sustains more.`,
    );
  }
  return warnings;
}

/** What the broker is configured with, from its volume and its machine. */
interface BrokerBaselines {
  /** Bytes of the log's ring: `capacity` of `s3.wal.path`. */
  readonly walCapacityBytes: number;
  /** Writes per second: `iops` of `s3.wal.path`. */
  readonly walIops: number;
  /** Bytes per second: `bandwidth` of `s3.wal.path`. */
  readonly walBytesPerSecond: number;
  /** Bytes per second from the bucket: `s3.network.ingress.baseline.bandwidth`. */
  readonly ingressBytesPerSecond: number;
  /** Bytes per second to the bucket: `s3.network.egress.baseline.bandwidth`. */
  readonly egressBytesPerSecond: number;
}

/** Beside the ring, on the same volume: the file system, topics and groups, and the broker's log. */
const BESIDE_WAL_GIB_MIN = 2;
const BESIDE_WAL_SHARE = 0.1;
/** Uploads go at up to 125 % of appends (`s3.wal.upload.pace.percent`). */
const UPLOAD_PACE = 1.25;

/**
 * How the volume and the machine set the broker's limits: the log is paced by the narrower of both,
 * and the network is given out as the machine sustains it, but never below what uploads need to keep
 * up with a log that is written as fast as its volume takes it (a burstable machine's network
 * baseline lies below that).
 */
export function baselinesOf(volume: WalVolume, instance: AwsInstance): BrokerBaselines {
  const limits = walVolumeLimits(volume.type);
  const granted = volume.throughputMibps ?? Math.floor(volume.iops * limits.throughputPerIops);
  const walBytesPerSecond = Math.min(granted * MIB, instance.ebsBaselineBytesPerSecond);
  const uploads = Math.round(walBytesPerSecond * UPLOAD_PACE);
  const network = Math.max(instance.networkBaselineBytesPerSecond, uploads);
  const beside = Math.max(BESIDE_WAL_GIB_MIN, Math.ceil(volume.sizeGib * BESIDE_WAL_SHARE));
  return {
    walCapacityBytes: (volume.sizeGib - beside) * GIB,
    walIops: Math.min(volume.iops, instance.ebsMaxIops),
    walBytesPerSecond,
    ingressBytesPerSecond: network,
    egressBytesPerSecond: network,
  };
}

function outside(
  pointer: string,
  value: number,
  { min, max }: Range,
  unit: string,
  reason: string,
): FieldError | undefined {
  if (Number.isInteger(value) && value >= min && value <= max) return undefined;
  const message = `must be a whole number of ${unit} from ${min} to ${max}: ${reason}.`;
  return { pointer, code: "out_of_range", message };
}

function aboveRatio(volume: WalVolume, limits: WalVolumeLimits): FieldError | undefined {
  const max = volume.sizeGib * limits.iopsPerGib;
  if (volume.iops <= max || volume.iops <= limits.includedIops) return undefined;
  const message =
    `must be at most ${max}: ${volume.type} provides at most ${limits.iopsPerGib} per GiB. Choose ` +
    "a larger volume or fewer IOPS.";
  return { pointer: "/iops", code: "too_large", message };
}

function aboveInstance(volume: WalVolume, instance: AwsInstance): FieldError | undefined {
  if (volume.iops <= instance.ebsMaxIops) return undefined;
  const message =
    `must be at most ${instance.ebsMaxIops}, the maximum of ${instance.type}. Choose fewer IOPS ` +
    "or a larger size.";
  return { pointer: "/iops", code: "too_large", message };
}

function throughputErrors(volume: WalVolume, limits: WalVolumeLimits): (FieldError | undefined)[] {
  const pointer = "/throughput_mibps";
  const throughput = volume.throughputMibps;
  const range = limits.throughputMibps;
  if (range === undefined) {
    if (throughput === undefined) return [];
    const message = `cannot be set for ${volume.type}: its throughput follows from its IOPS.`;
    return [{ pointer, code: "not_applicable", message }];
  }
  if (throughput === undefined) {
    return [{ pointer, code: "required", message: `is required for ${volume.type}.` }];
  }
  const wrong = outside(pointer, throughput, range, "MiB/s", `the range of ${volume.type}`);
  if (wrong !== undefined) return [wrong];
  const max = Math.floor(volume.iops * limits.throughputPerIops);
  if (throughput <= max) return [];
  const message =
    `must be at most ${max}: ${volume.type} provides ${limits.throughputPerIops} MiB/s for each ` +
    `of its ${volume.iops} IOPS. Choose more IOPS or less throughput.`;
  return [{ pointer, code: "too_large", message }];
}
