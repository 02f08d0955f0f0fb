/** Which deployment a cluster's folder is of: what was asked for, and what was applied. */
import type { ClusterDeployment } from "../cluster-driver.ts";
import type { Workspace } from "../terraform/workspace.ts";

/** The deployment that was last requested, whether it was applied or not. */
export const ASKED_FILE = "asked.json";
/** The deployment that was last applied. */
export const APPLIED_FILE = "applied.json";

/**
 * The deployment that was last applied, or last requested if none was applied; undefined if there was none, or
 * the folder is lost.
 */
export async function lastDeployment(workspace: Workspace): Promise<ClusterDeployment | undefined> {
  const applied = await deploymentIn(workspace, APPLIED_FILE);
  return applied ?? (await deploymentIn(workspace, ASKED_FILE));
}

/** Written by this program in a folder that only it uses. */
export async function deploymentIn(
  workspace: Workspace,
  file: string,
): Promise<ClusterDeployment | undefined> {
  return (await workspace.readJson(file)) as ClusterDeployment | undefined;
}
