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
import { applyTuning } from "./apply-tuning.ts";
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

/** A change that others overtake is validated again. Of changes at once, one is stored each time: so many may be made at once. */
const VALIDATIONS_MAX = 20;

/**
 * Changes a cluster's tuning and gives it to the running broker at once; a broker that does not
 * answer gets it when it is back. Throws `not_found`, `cluster_not_ready` for a cluster that is
 * being deleted, `precondition_failed`, and `tuning_refused` where a value is out of its bounds or
 * the broker refuses it: then nothing has changed.
 *
 * The broker is asked whether it would take the change, the change is stored, the broker gets it, and the
 * outcome is stored. No transaction is open while the broker is asked. If the process ends in between, the worker
 * does the rest.
 */
export async function updateTuning(
  core: Core,
  principal: Principal,
  input: UpdateTuningInput,
): Promise<TuningView> {
  for (let validations = 0; validations < VALIDATIONS_MAX; validations += 1) {
    const view = await tryUpdate(core, principal, input);
    if (view !== undefined) return view;
  }
  throw new DomainError("precondition_failed", "Other changes of the tuning were faster.", {
    remedy: "Read the tuning again, then repeat the change.",
  });
}

/** Undefined where the tuning has changed since the broker was asked: it must be asked about the sum of both. */
async function tryUpdate(
  core: Core,
  principal: Principal,
  input: UpdateTuningInput,
): Promise<TuningView | undefined> {
  const found = await requireCluster(core, principal, input.clusterId);
  if (input.reverts) await assertNotChangedSince(core.db, found, input.reverts);
  const settings = await readSettings(core, found);
  const wanted = validate(found, input, settings);
  if (!input.validateOnly && changesBetween(found, wanted, settings).length === 0) {
    return viewTuning(found, settings);
  }
  const outcome = await askFor(core, wanted, settings);
  throwIfRefused(outcome, input.patch);
  if (input.validateOnly) return viewTuning(wanted, settings);
  const by = await changerBehind(core, principal);
  const problem = outcome.kind === "later" ? outcome.problem : undefined;
  const { version } = found.tuning;
  const stored = await core.db.transaction((tx) =>
    store(core, tx, principal, { ...input, version, by, settings, problem }),
  );
  if (stored === undefined) return undefined;
  // A broker that could not say whether it would take the change gets it from the worker.
  if (outcome.kind !== "taken") return viewTuning(stored, await readSettings(core, stored));
  await applyTuning(core, stored);
  const changed = (await core.db.clusters.load(found.id)) ?? stored;
  return viewTuning(changed, await readSettings(core, changed));
}

/** Stores the change, unless the tuning is another version than the one that was validated. Other changes wait meanwhile. */
async function store(
  core: Core,
  tx: Transaction,
  principal: Principal,
  input: UpdateTuningInput & {
    readonly version: number;
    readonly by: Changer;
    readonly settings: BrokerSettings | undefined;
    readonly problem: string | undefined;
  },
): Promise<Cluster | undefined> {
  const cluster = await tx.clusters.lock(principal.organizationId, input.clusterId);
  if (!cluster) throw notFound("cluster", input.clusterId);
  if (cluster.tuning.version !== input.version) return undefined;
  if (input.reverts) await assertNotChangedSince(tx, cluster, input.reverts);
  const wanted = validate(cluster, input, input.settings);
  const changes = changesBetween(cluster, wanted, input.settings);
  if (changes.length === 0) return cluster;
  await tx.tuning.record(cluster.id, {
    overrides: wanted.tuning.overrides,
    version: cluster.tuning.version + 1,
    by: input.by,
    changes,
    reverts: input.reverts?.id,
    problem: input.problem,
    at: core.clock.now(),
  });
  return (await tx.clusters.load(cluster.id)) ?? cluster;
}

/** Whether the broker would take the change. One that did not answer a moment ago is not waited for. */
async function askFor(
  core: Core,
  wanted: Cluster,
  settings: BrokerSettings | undefined,
): Promise<SettingsOutcome> {
  if (settings === undefined) return { kind: "later", problem: undefined };
  return giveSettings(core, wanted, askedKnobs(wanted), { validateOnly: true });
}

/** The cluster with the change. Throws `cluster_not_ready`, `precondition_failed`, `tuning_refused`. */
function validate(
  cluster: Cluster,
  { patch, ifMatch }: UpdateTuningInput,
  settings: BrokerSettings | undefined,
): Cluster {
  if (cluster.phase === "DELETING") {
    throw new DomainError("cluster_not_ready", `Cluster ${cluster.name} is being deleted.`, {
      retryable: false,
    });
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
