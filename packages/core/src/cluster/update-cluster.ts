import type { Transaction } from "@millrace/db";
import {
  type AwsNetwork,
  type AwsSpec,
  type Cluster,
  type ClusterPhase,
  type ClusterSize,
  checkTuning,
  checkWalVolumeChange,
  clusterNotReady,
  desiredTuning,
  type FieldError,
  type NetworkAccess,
  type Operation,
  type Principal,
  providerOf,
  type SpecPart,
  TUNING_KNOBS,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { canonical, startOperation } from "../engine/index.ts";
import { cancelDriftCheck } from "../operation/cancel-drift-check.ts";
import { withExistingId } from "./create-cluster.ts";
import { assertMatches, type ClusterTarget, lockCluster } from "./lock-cluster.ts";
import { requireCluster } from "./require-cluster.ts";
import {
  fieldsOfAws,
  plaintextErrors,
  reachErrors,
  throwIfAny,
  under,
  type WalRequest,
  walErrors,
  walOf,
} from "./resolve-spec.ts";

/** Labels of one cluster, as at its creation. */
const LABELS_MAX = 32;

/** A merge patch: what is absent stays. */
export interface ClusterPatch {
  readonly name?: string | undefined;
  /** Null takes a label away. */
  readonly labels?: Readonly<Record<string, string | null>> | undefined;
  readonly size?: ClusterSize | undefined;
  readonly deletionProtection?: boolean | undefined;
  /** Of a cluster on this machine. */
  readonly plaintextListener?: boolean | undefined;
  /** Of a cluster that has several. */
  readonly brokers?: number | undefined;
  readonly wal?: WalRequest | undefined;
  readonly network?:
    | {
        readonly access?: NetworkAccess | undefined;
        readonly allowedPrincipals?: readonly string[] | undefined;
        readonly allowedCidrs?: readonly string[] | undefined;
      }
    | undefined;
  readonly paused?: boolean | undefined;
}

export interface UpdateClusterInput extends ClusterTarget {
  readonly patch: ClusterPatch;
  readonly requireApproval?: boolean | undefined;
}

/** A change that can be made, with what it takes. */
export interface ValidatedUpdate {
  readonly wanted: Cluster;
  /** Whether the cluster would differ at all. */
  readonly changes: boolean;
  /** Whether something has to be done where it runs, rather than in its row alone. */
  readonly needsOperation: boolean;
}

export interface UpdatedCluster {
  readonly cluster: Cluster;
  /** The operation that makes the change; undefined where the row was all. */
  readonly operation: Operation | undefined;
}

/**
 * Changes a cluster's spec, in its row and, where that takes it, by an operation. Throws
 * `not_found`, `validation_failed`, `precondition_failed`, `cluster_name_taken`,
 * `tuning_refused` where the tuning does not fit the new size, `cluster_not_ready`, and
 * `cluster_busy` while another operation runs.
 */
export async function updateCluster(
  core: Core,
  principal: Principal,
  input: UpdateClusterInput,
): Promise<UpdatedCluster> {
  const found = await requireCluster(core, principal, input.clusterId);
  if (validateUpdate(found, input).needsOperation)
    await cancelDriftCheck(core, principal, found.id);
  try {
    return await core.db.transaction((tx) => change(core, principal, tx, input));
  } catch (error) {
    throw await withExistingId(core, error, found.environmentId, input.patch.name ?? found.name);
  }
}

async function change(
  core: Core,
  principal: Principal,
  tx: Transaction,
  input: UpdateClusterInput,
): Promise<UpdatedCluster> {
  const cluster = await lockCluster(tx, principal, input);
  const { wanted, changes, needsOperation } = validateUpdate(cluster, input);
  if (!changes) return { cluster, operation: undefined };
  const { name, labels, deletionProtection } = wanted;
  if (!needsOperation) {
    const row = { name, labels, deletionProtection, needsOperation };
    return { cluster: await tx.clusters.changeSpec(cluster.id, row), operation: undefined };
  }
  await tx.operations.refuseBusy(cluster.id);
  if (!isChangeable(cluster)) throw clusterNotReady(cluster);
  const operation = await startOperation(tx, core.clock, cluster, "cluster.update", {
    requireApproval: input.requireApproval,
    spec: differing(cluster, wanted),
  });
  // What does not wait for the operation, and is not taken back with it.
  const row = { deletionProtection, needsOperation: false };
  return { cluster: await tx.clusters.changeSpec(cluster.id, row), operation };
}

/** What of the spec the operation is to change. */
function differing(cluster: Cluster, wanted: Cluster): SpecPart {
  const fields = SPEC_FIELDS.filter((each) => canonical(wanted[each]) !== canonical(cluster[each]));
  return Object.fromEntries(fields.map((field) => [field, wanted[field]]));
}

const SPEC_FIELDS = [
  "name",
  "labels",
  "size",
  "plaintextListener",
  "brokers",
  "aws",
] as const satisfies (keyof SpecPart)[];

/** Throws whatever `updateCluster` would, but for what only the database knows. */
export function validateUpdate(
  cluster: Cluster,
  { patch, ifMatch }: Pick<UpdateClusterInput, "patch" | "ifMatch">,
): ValidatedUpdate {
  assertMatches(cluster, ifMatch);
  const wanted = withPatch(cluster, patch);
  const differs = (field: keyof Cluster) => canonical(wanted[field]) !== canonical(cluster[field]);
  // On AWS the name and the labels stand as tags on everything.
  const tagged = providerOf(cluster.region) === "aws";
  const needsOperation =
    differs("size") ||
    differs("plaintextListener") ||
    differs("brokers") ||
    differs("aws") ||
    (tagged && (differs("name") || differs("labels"))) ||
    (isBehind(cluster) && asksForOperation(patch, tagged));
  const changes =
    needsOperation || differs("name") || differs("labels") || differs("deletionProtection");
  if (changes) refuseLeaving(cluster);
  if (needsOperation) checkFit(wanted);
  return { wanted, changes: changes || differs("paused"), needsOperation };
}

/** Phases from which an operation can change what runs. */
const CHANGEABLE: readonly ClusterPhase[] = ["RUNNING", "DEGRADED"];

/** A stack that failed is repaired by applying another one, if the cluster has a placement. */
function isChangeable({ phase, region, placement, dataDestroyedAt }: Cluster): boolean {
  if (CHANGEABLE.includes(phase)) return true;
  if (dataDestroyedAt !== undefined) return false;
  return phase === "FAILED" && providerOf(region) === "aws" && placement !== undefined;
}

/** Whether a change of the spec was begun and did not come to its end. */
function isBehind(cluster: Cluster): boolean {
  return isChangeable(cluster) && cluster.observedRevision < cluster.revision;
}

/** Whether the patch speaks of what an operation makes so. */
function asksForOperation(patch: ClusterPatch, tagged: boolean) {
  const { size, plaintextListener, brokers, wal, network, name, labels } = patch;
  const parts = tagged
    ? [size, brokers, wal, network, name, labels]
    : [size, plaintextListener, brokers];
  return parts.some((part) => part !== undefined);
}

function withPatch(cluster: Cluster, patch: ClusterPatch): Cluster {
  const { size = cluster.size } = patch;
  const wanted = {
    ...cluster,
    name: patch.name ?? cluster.name,
    size,
    labels: mergeLabels(cluster.labels, patch.labels ?? {}),
    deletionProtection: patch.deletionProtection ?? cluster.deletionProtection,
    plaintextListener: patch.plaintextListener ?? cluster.plaintextListener,
    brokers: patch.brokers ?? cluster.brokers,
    paused: patch.paused ?? cluster.paused,
  };
  throwIfAny(brokersErrors(cluster, wanted.brokers));
  if (cluster.aws === undefined) {
    throwIfAny(fieldsOfAws({ wal: patch.wal, network: patch.network }));
    return wanted;
  }
  throwIfAny(plaintextErrors(patch));
  const aws = mergeAws(cluster.aws, size, patch);
  throwIfAny(volumeErrors(cluster, aws));
  return { ...wanted, aws };
}

/** With several brokers a log has a whole volume, which is made for one instance or for several. */
function volumeErrors({ brokers, aws }: Cluster, wanted: AwsSpec): FieldError[] {
  if (brokers === 1 || aws === undefined) return [];
  const code = "not_applicable";
  const why = "cannot be changed with several brokers";
  const errors: FieldError[] = [];
  if (aws.wal.type !== wanted.wal.type) {
    const message = `${why}: whether several instances may attach a volume is set when it is created. Create another cluster`;
    errors.push({ pointer: "/wal/type", code, message });
  }
  if (aws.wal.sizeGib !== wanted.wal.sizeGib) {
    const message = `${why}: each log has a whole volume, and keeps its size. Create another cluster`;
    errors.push({ pointer: "/wal/size_gib", code, message });
  }
  return errors;
}

/** Why a cluster cannot have this number of brokers instead of its own. */
function brokersErrors({ brokers }: Cluster, wanted: number): FieldError[] {
  if (wanted === brokers) return [];
  const alone =
    "cannot change from or to 1: a broker that is alone keeps the cluster's metadata in a file of its own, " +
    "several brokers share it in a database. Create another cluster";
  if (wanted !== 1 && brokers !== 1) return [];
  return [{ pointer: "/brokers", code: "not_applicable", message: alone }];
}

function mergeAws(aws: AwsSpec, size: ClusterSize, patch: ClusterPatch): AwsSpec {
  const wal = patch.wal ? walOf(size, patch.wal, aws.wal) : aws.wal;
  const network: AwsNetwork = {
    ...aws.network,
    access: patch.network?.access ?? aws.network.access,
    allowedPrincipals: patch.network?.allowedPrincipals ?? aws.network.allowedPrincipals,
    allowedCidrs: patch.network?.allowedCidrs ?? aws.network.allowedCidrs,
  };
  throwIfAny([
    ...walErrors(size, wal),
    ...under("/wal", checkWalVolumeChange(aws.wal, wal)),
    ...reachErrors(network),
  ]);
  return { ...aws, wal, network };
}

function mergeLabels(
  labels: Readonly<Record<string, string>>,
  patch: Readonly<Record<string, string | null>>,
): Readonly<Record<string, string>> {
  const merged = { ...labels, ...patch };
  const kept = Object.entries(merged).filter(
    (entry): entry is [string, string] => entry[1] !== null,
  );
  if (kept.length > LABELS_MAX) {
    throwIfAny([
      {
        pointer: "/labels",
        code: "too_big",
        message: `must be at most ${LABELS_MAX} in total, not ${kept.length}`,
      },
    ]);
  }
  return Object.fromEntries(kept);
}

/** What a tenant has tuned must be possible in the new size. Throws `tuning_refused`. */
export function checkFit(cluster: Cluster): void {
  const { tuning } = cluster;
  const asked = TUNING_KNOBS.filter((knob) => typeof tuning.overrides[knob] === "number");
  checkTuning(cluster, desiredTuning(cluster, tuning.overrides), asked);
}

function refuseLeaving(cluster: Cluster): void {
  if (cluster.phase !== "DELETING" && cluster.phase !== "PENDING_PURGE") return;
  throw clusterNotReady(cluster, { remedy: "Restore the cluster first, if its data is kept." });
}
