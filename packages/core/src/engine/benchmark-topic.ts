/** The topic of a benchmark: whatever became of the benchmark, its topic is deleted. */
import { BrokerError } from "@millrace/broker-admin";
import { type Benchmark, benchmarkTopic, type Cluster } from "@millrace/domain";
import { type ClusterDriver, ProvisionError } from "@millrace/provisioner";
import { deploymentOf } from "./cluster-deployment.ts";
import type { OperationTools, WorkerTools } from "./worker-tools.ts";

/** Topics deleted in one round, each of another cluster: a broker that is down takes a few seconds. */
const BATCH_MAX = 20;
/**
 * A broker may create a topic after its client gave up. So long after the end of a benchmark it has:
 * creations time out within a minute.
 */
const LATE_CREATION_MS = 2 * 60_000;

/**
 * Ends a load that an earlier attempt left, and deletes the topic, if they exist. A step holds its fence
 * before: another worker's load is not ended. Throws `BrokerError`, `ProvisionError`.
 */
export async function removeTopic(
  { db, clock, topics }: Pick<OperationTools, "db" | "clock" | "topics">,
  driver: ClusterDriver,
  cluster: Cluster,
  benchmark: Benchmark,
): Promise<void> {
  const topic = benchmarkTopic(benchmark.id);
  // Who still produces would create it again where brokers create topics by themselves.
  await driver.endLoad(topic);
  const deployment = deploymentOf(cluster);
  let isGone = isSettled(benchmark, clock.now());
  if (deployment !== undefined) {
    try {
      await topics(await driver.access(deployment)).delete(topic);
      isGone = true;
    } catch (error) {
      if (!(error instanceof BrokerError && error.code === "topic_not_found")) throw error;
    }
  }
  // Otherwise it is asked for again: its creation may still be under way.
  if (isGone) await db.benchmarks.markTopicDeleted(benchmark.id, clock.now());
}

/** Whether a topic that is not there will not be there later either. */
function isSettled({ report, endedAt }: Benchmark, now: Date): boolean {
  if (report !== undefined) return true;
  return endedAt !== undefined && now.getTime() - endedAt.getTime() > LATE_CREATION_MS;
}

/**
 * Deletes topics of benchmarks that ended while their broker did not answer, or without a worker. A
 * broker that does not answer now is asked again in the next round.
 */
export async function removeLeftTopics(
  tools: Pick<WorkerTools, "db" | "clock" | "drivers" | "topics" | "log">,
): Promise<void> {
  for (const benchmark of await tools.db.fleet.benchmarks.withTopicLeft(["RUNNING"], BATCH_MAX)) {
    const cluster = await tools.db.fleet.clusters.load(benchmark.clusterId);
    if (cluster === undefined) continue;
    const driver = tools.drivers.find(cluster.region);
    if (driver === undefined) continue;
    try {
      const db = tools.db.tenant(cluster.organizationId);
      await removeTopic({ ...tools, db }, driver, cluster, benchmark);
      tools.log.info({ benchmark: benchmark.id }, "a topic that a benchmark left is looked for");
    } catch (error) {
      if (!(error instanceof BrokerError || error instanceof ProvisionError)) throw error;
      tools.log.warn({ benchmark: benchmark.id, err: error }, "a benchmark's topic is left");
    }
  }
}
