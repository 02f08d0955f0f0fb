import type { TenantDatabase } from "@millrace/db";
import { type Cluster, desiredTuning, type TuningKnob } from "@millrace/domain";
import type { Core } from "../core.ts";
import { askedKnobs, giveSettings, readSettings } from "./broker-tuning.ts";
import { runningValue } from "./tuning-view.ts";

export type TuningTools = Pick<Core, "brokerHttp"> & {
  readonly db: {
    readonly clusters: Pick<TenantDatabase["clusters"], "load">;
    readonly tuning: Pick<TenantDatabase["tuning"], "markApplied" | "markProblem">;
  };
};

/**
 * - `same`     the broker has what was asked for;
 * - `applied`  it had not, and has been given it;
 * - `silent`   it does not answer, or cannot change settings now;
 * - `refused`  it does not take the values; the cluster's tuning tells why.
 */
export type ApplyResult = "same" | "applied" | "silent" | "refused";

/**
 * Changes of the same tuning that one call follows up. Each of them is applied by its own request as well, so
 * giving up leaves nothing to do but for the next round.
 */
const FOLLOWED_CHANGES_MAX = 20;

/**
 * Sees to it that a cluster's running broker has what was asked for: after a change, after a change that it
 * missed, after a restart, and after somebody changed the same setting at the broker itself. What was never
 * asked for is left as the broker has it.
 *
 * No transaction or lock is held while the broker is asked. Several callers may do this at once: the tuning's
 * version serializes them. Whoever has given the broker an older version than the row's finds that out
 * when it notes the outcome, and gives it the newer one. If it ends before, the next round compares the values.
 */
export async function applyTuning(tools: TuningTools, cluster: Cluster): Promise<ApplyResult> {
  let current: Cluster | undefined = cluster;
  for (let followed = 0; followed < FOLLOWED_CHANGES_MAX; followed += 1) {
    const result = await applyVersion(tools, current);
    if (result !== "outdated") return result;
    current = await tools.db.clusters.load(cluster.id);
    if (current === undefined) break;
  }
  return "silent";
}

/** `outdated`: the row asks for a newer version by now. */
async function applyVersion(
  tools: TuningTools,
  cluster: Cluster,
): Promise<ApplyResult | "outdated"> {
  if (askedKnobs(cluster).length === 0) return "same";
  const { tuning } = tools.db;
  const { version, appliedVersion, problem: known } = cluster.tuning;
  const differing = await compare(tools, cluster);
  if (differing === "silent") return "silent";
  if (differing.length === 0 && appliedVersion === version && known === undefined) return "same";
  // The caller may have read the row a while ago.
  const newest = (await tools.db.clusters.load(cluster.id))?.tuning.version;
  if (newest !== version) return "outdated";
  if (differing.length === 0) {
    return (await tuning.markApplied(cluster.id, version)) ? "same" : "outdated";
  }
  const outcome = await giveSettings(tools, cluster, askedKnobs(cluster), { validateOnly: false });
  if (outcome.kind === "taken") {
    return (await tuning.markApplied(cluster.id, version)) ? "applied" : "outdated";
  }
  const problem = outcome.kind === "refused" ? outcome.said : outcome.problem;
  if (problem !== undefined && !(await tuning.markProblem(cluster.id, version, problem))) {
    return "outdated";
  }
  return outcome.kind === "refused" ? "refused" : "silent";
}

/** The asked knobs that the running broker has otherwise. */
async function compare(tools: TuningTools, cluster: Cluster): Promise<TuningKnob[] | "silent"> {
  const settings = await readSettings(tools, cluster);
  if (settings === undefined) return "silent";
  const values = desiredTuning(cluster, cluster.tuning.overrides);
  return askedKnobs(cluster).filter((knob) => runningValue(settings, knob) !== values[knob]);
}
