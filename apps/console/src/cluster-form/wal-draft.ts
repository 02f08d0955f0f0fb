/** The log's volume while somebody chooses it: numbers may be half-written. */
import type { Cluster } from "@millrace/contract";
import {
  awsSizing,
  type ClusterSize,
  checkWalVolume,
  checkWalVolumeChange,
  type WalVolume,
  type WalVolumeType,
  walVolumeLimits,
} from "@millrace/domain";
import { type FieldErrors, sentence } from "./field-errors.ts";

export interface WalDraft {
  type: WalVolumeType;
  sizeGib: number | string;
  iops: number | string;
  throughputMibps: number | string;
}

/** What the API takes. */
export interface WalRequest {
  type: WalVolumeType;
  size_gib: number;
  iops: number;
  throughput_mibps?: number | undefined;
}

/** The volume that the API answers. */
export function walVolumeFrom(wal: NonNullable<Cluster["spec"]["wal"]>): WalVolume {
  return {
    type: wal.type,
    sizeGib: wal.size_gib,
    iops: wal.iops,
    throughputMibps: wal.throughput_mibps ?? undefined,
  };
}

/** The volume as it is, ready to be edited. */
export function walDraftOf(volume: WalVolume): WalDraft {
  return { ...volume, throughputMibps: volume.throughputMibps ?? "" };
}

export function defaultWalDraft(size: ClusterSize): WalDraft {
  return walDraftOf(awsSizing(size).wal);
}

/** Another type, with what it grants at least; an io2 has no throughput of its own. */
export function withType(wal: WalDraft, type: WalVolumeType): WalDraft {
  if (type === wal.type) return wal;
  const limits = walVolumeLimits(type);
  const iops = Math.min(Math.max(Number(wal.iops) || 0, limits.iops.min), limits.iops.max);
  return { ...wal, type, iops, throughputMibps: limits.includedThroughputMibps || "" };
}

/** Half-written numbers become NaN, which every bound refuses. */
export function walVolumeOf(wal: WalDraft): WalVolume {
  return {
    type: wal.type,
    sizeGib: numberOf(wal.sizeGib),
    iops: numberOf(wal.iops),
    throughputMibps: walVolumeLimits(wal.type).throughputMibps && numberOf(wal.throughputMibps),
  };
}

function numberOf(value: number | string): number {
  return value === "" ? Number.NaN : Number(value);
}

export function walRequestOf(wal: WalDraft): WalRequest {
  const { type, sizeGib, iops, throughputMibps } = walVolumeOf(wal);
  return {
    type,
    size_gib: sizeGib,
    iops,
    ...(throughputMibps !== undefined && { throughput_mibps: throughputMibps }),
  };
}

/** Values that EBS or the size reject, and changes that an existing volume cannot make. */
export function checkWalDraft(wal: WalDraft, size: ClusterSize, current?: WalVolume): FieldErrors {
  const volume = walVolumeOf(wal);
  const found = [
    ...checkWalVolume(volume, awsSizing(size).instance),
    ...(current ? checkWalVolumeChange(current, volume) : []),
  ];
  return Object.fromEntries(
    found.map(({ pointer, message }) => [`/wal${pointer}`, sentence(message)]),
  );
}
