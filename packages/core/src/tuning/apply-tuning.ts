import type { TenantDatabase } from "@millrace/db";
import { type Cluster, desiredTuning, type TuningKnob } from "@millrace/domain";
import type { Core } from "../core.ts";
import { askedKnobs, giveSettings, readSettings } from "./broker-tuning.ts";
import { runningValue } from "./tuning-view.ts";

export type TuningTools = Pick<Core, "kafka" | "brokerHttp"> & {
  readonly db: Pick<TenantDatabase, "transaction" | "tuning">;
};

/**
 * - `same`     the broker has what was asked for;
 * - `applied`  it had not, and has been given it;
 * - `silent`   it does not answer, or cannot change settings now;
 * - `refused`  it does not take the values; the cluster's tuning tells why.
 */
export type ApplyResult = "same" | "applied" | "silent" | "refused";

/**
 * Sees to it that a cluster's running broker has what was asked for: after a change that it missed,
 * after a restart, and after somebody changed the same setting at the broker itself. What was never
 * asked for is left as the broker has it.
 */
export async function applyTuning(tools: TuningTools, cluster: Cluster): Promise<ApplyResult> {
  if (askedKnobs(cluster).length === 0) return "same";
  const seen = await compare(tools, cluster);
  if (seen === "silent") return "silent";
  const { appliedVersion: known, version: newest } = cluster.tuning;
  if (seen.length === 0 && known === newest) return "same";
  return tools.db.transaction(async (tx) => {
    // From here on nobody changes the overrides; those that the caller read may be a moment old.
    await tx.tuning.lock(cluster.id);
    const current = await tx.clusters.load(cluster.id);
    if (current === undefined) return "silent";
    const differing = await compare(tools, current);
    if (differing === "silent") return "silent";
    const { version, appliedVersion } = current.tuning;
    if (differing.length === 0) {
      if (appliedVersion < version) await tx.tuning.markApplied(current.id, version);
      return "same";
    }
    const outcome = await giveSettings(tools, current, askedKnobs(current), {
      validateOnly: false,
    });
    if (outcome.kind === "taken") {
      await tx.tuning.markApplied(current.id, version);
      return "applied";
    }
    const problem = outcome.kind === "refused" ? outcome.said : outcome.problem;
    if (problem !== undefined) await tx.tuning.markProblem(current.id, version, problem);
    return outcome.kind === "refused" ? "refused" : "silent";
  });
}

/** The asked knobs that the running broker has otherwise. */
async function compare(tools: TuningTools, cluster: Cluster): Promise<TuningKnob[] | "silent"> {
  const settings = await readSettings(tools, cluster);
  if (settings === undefined) return "silent";
  const values = desiredTuning(cluster, cluster.tuning.overrides);
  return askedKnobs(cluster).filter((knob) => runningValue(settings, knob) !== values[knob]);
}
