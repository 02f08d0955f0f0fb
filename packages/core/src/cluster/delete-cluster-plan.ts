import type { Plan, StepContext } from "../engine/plan.ts";
import { deploymentOf } from "./cluster-deployment.ts";

/** From a cluster in whatever state to nothing: no process, no data, no ports. */
export const deleteClusterPlan: Plan = {
  kind: "cluster.delete",
  steps: [
    {
      name: "stop_broker",
      check: isStopped,
      do: ({ tools, cluster, signal }) => tools.driver.stop(cluster.id, { signal }),
    },
    {
      name: "delete_data",
      check: ({ tools, cluster }) => tools.driver.isDestroyed(cluster.id),
      do: ({ tools, cluster }) => tools.driver.destroy(cluster.id),
    },
    {
      name: "release_ports",
      check: async ({ cluster }) => cluster.phase === "DELETED",
      do: releasePorts,
    },
  ],
};

async function isStopped({ tools, cluster }: StepContext): Promise<boolean> {
  const deployment = deploymentOf(cluster);
  if (!deployment) return tools.driver.isDestroyed(cluster.id);
  const seen = await tools.driver.observe(deployment);
  return seen === "absent" || seen === "stopped";
}

/** The ports go with the row: a deleted cluster holds none. */
async function releasePorts({ tools, cluster, fence }: StepContext): Promise<void> {
  await tools.db.transaction(async (tx) => {
    await tx.journal.hold(fence);
    const deleted = await tx.clusters.changePhase(cluster.id, { to: "DELETED" });
    if (!deleted) throw new Error(`a cluster that is ${cluster.phase} cannot become DELETED`);
  });
}
