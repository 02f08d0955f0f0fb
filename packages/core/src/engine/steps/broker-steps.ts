/** Steps about brokers: reserved, prepared, started, proven, stopped. */
import type { StepName } from "@millrace/domain";
import { deploymentOf } from "../cluster-deployment.ts";
import type { Step } from "../workflow.ts";
import { deployment, isToRest, runOptions } from "./deployment.ts";

const reserve: Step = {
  check: async ({ cluster }) => cluster.placement !== undefined,
  async do({ tools, driver, cluster, fence }) {
    const taken = await tools.db.clusters.placements();
    const placement = await driver.allocate(cluster.id, taken, cluster.brokers);
    await tools.db.transaction(async (tx) => {
      await tx.journal.hold(fence);
      await tx.clusters.recordPlacement(cluster.id, placement);
    });
    return undefined;
  },
};

const prepare: Step = {
  check: (context) => context.driver.isPrepared(deployment(context)),
  async do(context) {
    await context.driver.prepare(deployment(context));
    return undefined;
  },
};

const start: Step = {
  async check(context) {
    if (isToRest(context.cluster)) return true;
    const seen = await context.driver.observe(deployment(context));
    return seen === "starting" || seen === "ready";
  },
  async do(context) {
    await context.driver.ensureRunning(deployment(context));
    return undefined;
  },
};

const waitUntilHealthy: Step = {
  async check(context) {
    if (isToRest(context.cluster)) return true;
    // What a driver sees is whether brokers serve, not whether they began as the cluster is to be
    // now: instances elsewhere keep their machine and settings until somebody replaces them, which
    // is part of waiting. Where all is well already, waiting returns at once.
    if (!context.driver.capabilities.startsBrokers) return false;
    return (await context.driver.observe(deployment(context))) === "ready";
  },
  async do(context) {
    const { driver, signal } = context;
    // The broker may have died since the step before, or since an earlier attempt: starting is
    // part of waiting. Beyond this machine whoever runs the brokers starts them again.
    if (driver.capabilities.startsBrokers) await driver.ensureRunning(deployment(context));
    await driver.waitReady(deployment(context), { signal });
    return undefined;
  },
};

/** Interrupted, it starts from the first broker again: which were restarted already is not recorded. */
const restart: Step = {
  async do(context) {
    const { brokerId } = context.operation.parameters;
    await context.driver.restart(deployment(context), { ...runOptions(context), brokerId });
    return undefined;
  },
};

const smokeCheck: Step = {
  // Where the data came back with the cluster, a paused one may come back paused.
  check: async ({ cluster }) => isToRest(cluster) && cluster.observedRevision > 0,
  async do(context) {
    const access = await context.driver.access(deployment(context));
    await context.tools.smokeCheck(access);
    return undefined;
  },
};

const stop: Step = {
  async check({ driver, cluster }) {
    const wanted = deploymentOf(cluster);
    if (!wanted) return driver.isDestroyed(cluster.id);
    const seen = await driver.observe(wanted);
    return seen === "absent" || seen === "stopped";
  },
  async do({ driver, cluster, signal }) {
    await driver.stop(cluster.id, { signal });
    return undefined;
  },
};

export const BROKER_STEPS = {
  reserve_ports: reserve,
  reserve_ids: reserve,
  prepare_broker: prepare,
  start_broker: start,
  restart_one_by_one: restart,
  wait_until_healthy: waitUntilHealthy,
  smoke_check: smokeCheck,
  stop_broker: stop,
} satisfies Partial<Record<StepName, Step>>;
