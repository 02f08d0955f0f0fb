import { type Cluster, type ClusterId, type Principal, UNTOUCHED_TUNING } from "@millrace/domain";
import type { Core } from "../core.ts";
import { type ChangePreview, planOf, warningsOf } from "./change-preview.ts";
import { estimateOf } from "./cluster-estimate.ts";
import {
  type CreateClusterInput,
  refuseTakenName,
  validateCreate,
  withFreeRange,
} from "./create-cluster.ts";

/** Stands for the id that a cluster would get, so that the same preview has the same digest. */
const PREVIEW_ID: ClusterId = "clu_00000000000000000000000000";

/**
 * What creating the cluster would do. `signal` aborts when the caller has gone, here as in the
 * other previews. Throws as `createCluster` and `PlanSlots.run` do.
 */
export async function previewCreate(
  core: Core,
  principal: Principal,
  input: CreateClusterInput,
  signal: AbortSignal,
): Promise<ChangePreview> {
  const { region, environment, spec: validated } = await validateCreate(core, principal, input);
  const spec = await withFreeRange(core.db, principal, input, validated);
  await refuseTakenName(core, environment.id, input.name);
  const now = core.clock.now();
  const wanted: Cluster = {
    id: PREVIEW_ID,
    organizationId: principal.organizationId,
    environmentId: environment.id,
    name: input.name,
    region,
    size: input.size,
    labels: input.labels ?? {},
    tuning: UNTOUCHED_TUNING,
    phase: "PROVISIONING",
    conditions: [],
    revision: 1,
    observedRevision: 0,
    version: 1,
    placement: undefined,
    deletionProtection: input.deletionProtection ?? false,
    plaintextListener: input.plaintextListener ?? true,
    brokers: input.brokers ?? 1,
    zones: spec.zones,
    aws: spec.aws,
    localWalBytes: undefined,
    paused: false,
    purgeAt: undefined,
    dataDestroyedAt: undefined,
    drift: { status: "unknown", checkedAt: undefined, digest: undefined, operationId: undefined },
    createdAt: now,
    updatedAt: now,
    deletedAt: undefined,
  };
  const cost = estimateOf(wanted);
  const caller = { owner: principal.organizationId, signal };
  const plan = await core.planSlots.run(caller, (slot) => planOf(core, wanted, "apply", slot));
  return { plan, specChanges: [], cost, costDelta: cost.total, warnings: warningsOf(wanted) };
}
