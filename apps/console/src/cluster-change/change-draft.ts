/** What somebody is about to change of a cluster that exists. Pure, so that it is tested alone. */
import type { Cluster } from "@millrace/contract";
import { type ClusterSize, isAwsRegion, type NetworkAccess } from "@millrace/domain";
import { nameError } from "../cluster-form/cluster-draft.ts";
import type { FieldErrors } from "../cluster-form/field-errors.ts";
import {
  checkWalDraft,
  type WalDraft,
  type WalRequest,
  walDraftOf,
  walRequestOf,
  walVolumeFrom,
} from "../cluster-form/wal-draft.ts";

export interface ChangeDraft {
  name: string;
  size: ClusterSize;
  /** `name=value` each, as typed. */
  labels: string[];
  /** Undefined on AWS, where clusters have only one listener. */
  plaintextListener: boolean | undefined;
  /** Undefined where the number cannot change, because one broker is alone. */
  brokers: number | undefined;
  /** Only on AWS. */
  wal: WalDraft | undefined;
  reach: Reach | undefined;
}

interface Reach {
  access: NetworkAccess;
  allowedPrincipals: string[];
  allowedCidrs: string[];
}

/** A merge patch: what is absent stays. */
export interface ChangeRequest {
  name?: string;
  size?: ClusterSize;
  labels?: Record<string, string | null>;
  plaintext_listener?: boolean;
  brokers?: number;
  wal?: WalRequest;
  network?: { access: NetworkAccess; allowed_principals: string[]; allowed_cidrs: string[] };
}

/** The cluster as it is, ready to be edited. */
export function changeDraftOf({ spec, metadata }: Cluster): ChangeDraft {
  const { name, size, wal, network } = spec;
  return {
    name,
    size,
    labels: Object.entries(metadata.labels).map(([label, value]) => `${label}=${value}`),
    plaintextListener: isAwsRegion(spec.region) ? undefined : spec.plaintext_listener,
    brokers: spec.brokers === 1 ? undefined : spec.brokers,
    wal: wal ? walDraftOf(walVolumeFrom(wal)) : undefined,
    reach: network
      ? {
          access: network.access,
          allowedPrincipals: network.allowed_principals,
          allowedCidrs: network.allowed_cidrs,
        }
      : undefined,
  };
}

/** Only what differs from the cluster as it is. */
export function patchOf(cluster: Cluster, draft: ChangeDraft): ChangeRequest {
  const before = changeDraftOf(cluster);
  const labels = labelPatch(cluster.metadata.labels, draft.labels);
  const { wal, reach, plaintextListener, brokers } = draft;
  return {
    ...(draft.name !== before.name && { name: draft.name }),
    ...(draft.size !== before.size && { size: draft.size }),
    ...(labels && { labels }),
    ...(plaintextListener !== undefined &&
      plaintextListener !== before.plaintextListener && { plaintext_listener: plaintextListener }),
    ...(brokers !== undefined && brokers !== before.brokers && { brokers }),
    ...(wal &&
      before.wal &&
      !same(walRequestOf(wal), walRequestOf(before.wal)) && {
        wal: walRequestOf(wal),
      }),
    ...(reach && !same(reach, before.reach) && { network: networkPatch(reach) }),
  };
}

function networkPatch({ access, allowedPrincipals, allowedCidrs }: Reach) {
  return {
    access,
    allowed_principals: access === "endpoint_service" ? allowedPrincipals : [],
    allowed_cidrs: allowedCidrs,
  };
}

/** Labels that go are null; nothing where none changes. */
function labelPatch(
  before: Readonly<Record<string, string>>,
  wanted: readonly string[],
): Record<string, string | null> | undefined {
  const after = new Map(wanted.map(labelOf));
  const gone = Object.keys(before).filter((name) => !after.has(name));
  const set = [...after].filter(([name, value]) => before[name] !== value);
  if (gone.length + set.length === 0) return undefined;
  return Object.fromEntries([...gone.map((name) => [name, null] as const), ...set]);
}

/** A label's value may be empty, and may hold `=` itself. */
function labelOf(text: string): [name: string, value: string] {
  const at = text.indexOf("=");
  return at < 0 ? [text.trim(), ""] : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

const LABEL_NAME = /^[a-z][a-z0-9_-]{0,62}$/;

/** A word without `=` is a typing mistake, not a label without a value. */
function isLabel(text: string): boolean {
  return text.includes("=") && LABEL_NAME.test(labelOf(text)[0]);
}

export function checkChange(cluster: Cluster, draft: ChangeDraft): FieldErrors {
  const wrong = draft.labels.find((label) => !isLabel(label));
  const { wal } = cluster.spec;
  const name = nameError(draft.name);
  return {
    ...(name !== undefined && { "/name": name }),
    ...(wrong !== undefined && {
      "/labels": `"${wrong}" is not a label. Enter name=value; names are lowercase and start with a letter`,
    }),
    ...(draft.wal && wal && checkWalDraft(draft.wal, draft.size, walVolumeFrom(wal))),
  };
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
