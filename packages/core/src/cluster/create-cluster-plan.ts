import type { ClusterDeployment } from "@millrace/provisioner";
import { bootstrapServersOf } from "@millrace/provisioner";
import type { Plan, StepContext } from "../engine/plan.ts";
import { readyCondition } from "./cluster-condition.ts";
import { deploymentOf } from "./cluster-deployment.ts";

/** From an accepted cluster to one that clients can use. */
export const createClusterPlan: Plan = {
  kind: "cluster.create",
  steps: [
    {
      name: "reserve_ports",
      check: async ({ cluster }) => cluster.placement !== undefined,
      do: reservePorts,
    },
    { name: "plan", check: async () => true, do: async () => {} },
    { name: "approve", check: async () => true, do: async () => {} },
    {
      name: "prepare_broker",
      check: (context) => context.tools.driver.isPrepared(deployment(context)),
      do: (context) => context.tools.driver.prepare(deployment(context)),
    },
    {
      name: "start_broker",
      check: async (context) => {
        const seen = await context.tools.driver.observe(deployment(context));
        return seen === "starting" || seen === "ready";
      },
      do: (context) => context.tools.driver.ensureRunning(deployment(context)),
    },
    {
      name: "wait_until_healthy",
      check: async (context) =>
        (await context.tools.driver.observe(deployment(context))) === "ready",
      do: waitUntilHealthy,
    },
    {
      name: "smoke_check",
      do: (context) =>
        context.tools.smokeCheck({
          bootstrapServers: bootstrapServersOf(deployment(context).placement),
        }),
    },
    {
      name: "publish_endpoint",
      check: async ({ cluster }) => cluster.phase === "RUNNING",
      do: publishEndpoint,
    },
  ],
  // A cluster that failed is looked at and deleted, not used: its broker must not stay behind.
  cleanUp: ({ tools, cluster }) => tools.driver.stop(cluster.id),
};

/** The steps after the first run only once the placement is recorded. */
function deployment({ cluster }: StepContext): ClusterDeployment {
  const wanted = deploymentOf(cluster);
  if (!wanted) throw new Error("a cluster has a placement once its ports are reserved");
  return wanted;
}

async function reservePorts({ tools, cluster, fence }: StepContext): Promise<void> {
  const placement = await tools.driver.allocate(cluster.id, await tools.db.clusters.placements());
  await tools.db.transaction(async (tx) => {
    await tx.journal.hold(fence);
    await tx.clusters.recordPlacement(cluster.id, placement);
  });
}

/**
 * The broker may have died since the step before, or since an earlier attempt: starting is part of
 * waiting.
 */
async function waitUntilHealthy(context: StepContext): Promise<void> {
  const { driver } = context.tools;
  await driver.ensureRunning(deployment(context));
  await driver.waitReady(deployment(context), { signal: context.signal });
}

async function publishEndpoint({ tools, cluster, fence }: StepContext): Promise<void> {
  await tools.db.transaction(async (tx) => {
    await tx.journal.hold(fence);
    const published = await tx.clusters.changePhase(cluster.id, {
      to: "RUNNING",
      observed: true,
      conditions: readyCondition(tools.clock, "True", "Serving", "The broker serves clients."),
    });
    if (!published) throw new Error(`a cluster that is ${cluster.phase} cannot be published`);
  });
}
