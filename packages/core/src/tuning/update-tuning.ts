import type { BrokerSettings } from "@millrace/broker-admin";
import type { Transaction } from "@millrace/db";
import {
  type Changer,
  type Cluster,
  type ClusterId,
  checkTuning,
  DomainError,
  type KnobChange,
  notFound,
  type Principal,
  TUNING_KNOBS,
  type TuningChange,
  type TuningKnob,
  type TuningOverrides,
  tuningDefaults,
  tuningRefused,
} from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { changerBehind } from "../tenant/changer-behind.ts";
import {
  askedKnobs,
  giveSettings,
  readSettings,
  refusalFields,
  type SettingsOutcome,
} from "./broker-tuning.ts";
import { assertNotChangedSince } from "./tuning-conflict.ts";
import { matchesTuning, type TuningView, valuesOf, viewTuning } from "./tuning-view.ts";

export interface UpdateTuningInput {
  readonly clusterId: ClusterId;
  /** A merge patch: what is absent stays, `null` is the default again. */
  readonly patch: TuningOverrides;
  /** Changes only while the tuning's entity tag is this one. */
  readonly ifMatch?: string | undefined;
  /** Validates the change and answers what it would do; nothing changes. */
  readonly validateOnly?: boolean | undefined;
  /** The earlier change that the patch reverts; throws `tuning_changed_since` where a later one is in the way. */
  readonly reverts?: TuningChange | undefined;
}

/**
 * Changes a cluster's tuning and gives it to the running broker at once; a broker that does not
 * answer gets it when it is back. Throws `not_found`, `cluster_not_ready` for a cluster that is
 * being deleted, `precondition_failed`, and `tuning_refused` where a value is out of its bounds or
 * the broker refuses it: then nothing has changed.
 */
export async function updateTuning(
  core: Core,
  principal: Principal,
  input: UpdateTuningInput,
): Promise<TuningView> {
  const found = await requireCluster(core, principal, input.clusterId);
  const settings = await readSettings(core, found);
  if (input.validateOnly) return preview(core, found, input, settings);
  const by = await changerBehind(core, principal);
  // The broker is asked within the transaction, so that what it refuses is stored nowhere, and no
  // other change of this cluster comes in between. What it has taken and a commit that fails did
  // not store is put right by the worker.
  const changed = await core.db.transaction(async (tx) => {
    await tx.tuning.lock(found.id);
    const cluster = await tx.clusters.get(principal.organizationId, found.id);
    if (!cluster) throw notFound("cluster", found.id);
    return change(core, tx, cluster, { ...input, by, settings });
  });
  return viewTuning(changed, await readSettings(core, changed));
}

async function preview(
  core: Core,
  cluster: Cluster,
  input: UpdateTuningInput,
  settings: BrokerSettings | undefined,
): Promise<TuningView> {
  const wanted = validate(cluster, input, settings);
  const outcome = await give(core, wanted, settings, { validateOnly: true });
  throwIfRefused(outcome, input.patch);
  return viewTuning(wanted, settings);
}

async function change(
  core: Core,
  tx: Transaction,
  cluster: Cluster,
  input: UpdateTuningInput & { by: Changer; settings: BrokerSettings | undefined },
): Promise<Cluster> {
  if (input.reverts) await assertNotChangedSince(tx, cluster, input.reverts);
  const wanted = validate(cluster, input, input.settings);
  const changes = changesBetween(cluster, wanted, input.settings);
  if (changes.length === 0) return cluster;
  const outcome = await give(core, wanted, input.settings, { validateOnly: false });
  throwIfRefused(outcome, input.patch);
  await tx.tuning.record(cluster.id, {
    overrides: wanted.tuning.overrides,
    version: cluster.tuning.version + 1,
    by: input.by,
    changes,
    reverts: input.reverts?.id,
    applied: outcome.kind === "taken",
    problem: outcome.kind === "later" ? outcome.problem : undefined,
    at: core.clock.now(),
  });
  return (await tx.clusters.load(cluster.id)) ?? cluster;
}

/** A broker that did not answer a moment ago is not waited for: a transaction is open meanwhile. */
async function give(
  core: Core,
  wanted: Cluster,
  settings: BrokerSettings | undefined,
  options: { validateOnly: boolean },
): Promise<SettingsOutcome> {
  if (settings === undefined) return { kind: "later", problem: undefined };
  return giveSettings(core, wanted, askedKnobs(wanted), options);
}

/** The cluster with the change. Throws `cluster_not_ready`, `precondition_failed`, `tuning_refused`. */
function validate(
  cluster: Cluster,
  { patch, ifMatch }: UpdateTuningInput,
  settings: BrokerSettings | undefined,
): Cluster {
  if (cluster.phase === "DELETING") {
    throw new DomainError("cluster_not_ready", `Cluster ${cluster.name} is being deleted.`);
  }
  if (!matchesTuning(ifMatch, cluster)) {
    throw new DomainError("precondition_failed", "The tuning has changed since it was read.", {
      remedy: "Read the tuning again, then repeat the change.",
    });
  }
  const overrides = { ...cluster.tuning.overrides, ...patch };
  const wanted = { ...cluster, tuning: { ...cluster.tuning, overrides } };
  checkTuning(cluster, valuesOf(wanted, settings), namedIn(patch));
  return wanted;
}

function namedIn(patch: TuningOverrides): TuningKnob[] {
  return TUNING_KNOBS.filter((knob) => knob in patch);
}

function throwIfRefused(outcome: SettingsOutcome, patch: TuningOverrides): void {
  if (outcome.kind !== "refused") return;
  throw tuningRefused(refusalFields(outcome.said, namedIn(patch)), outcome.cause);
}

/**
 * An override is kept even where it equals the current value: it must hold when the size's default or
 * the broker's own setting changes later. The same override sent again changes nothing.
 */
function changesBetween(
  before: Cluster,
  after: Cluster,
  settings: BrokerSettings | undefined,
): KnobChange[] {
  const [from, to] = [valuesOf(before, settings), valuesOf(after, settings)];
  const [old, overrides] = [before.tuning.overrides, after.tuning.overrides];
  const defaults = tuningDefaults(before);
  const changed = TUNING_KNOBS.filter(
    (knob) => from[knob] !== to[knob] || old[knob] !== overrides[knob],
  );
  return changed.map((knob) => ({
    knob,
    from: from[knob],
    to: to[knob],
    toDefault: after.tuning.overrides[knob] === null,
    fromDefault: typeof old[knob] !== "number" && from[knob] === defaults[knob],
  }));
}
