/** The topic of a benchmark: whatever became of the benchmark, its topic is deleted. */
import { BrokerError } from "@millrace/broker-admin";
import { type Benchmark, benchmarkTopic, type Cluster } from "@millrace/domain";
import { type ClusterDriver, ProvisionError } from "@millrace/provisioner";
import { deploymentOf } from "./cluster-deployment.ts";
import type { WorkerTools } from "./worker-tools.ts";

/** Topics deleted in one round: there is one at most of each operation that ended badly. */
const BATCH_MAX = 20;

/**
 * Ends a load that an earlier attempt left, and deletes the topic, if they exist. Throws `BrokerError`,
 * `ProvisionError`.
 */
export async function removeTopic(
  { db, clock, kafka }: Pick<WorkerTools, "db" | "clock" | "kafka">,
  driver: ClusterDriver,
  cluster: Cluster,
  { id }: Benchmark,
): Promise<void> {
  const topic = benchmarkTopic(id);
  // Who still produces would create it again where brokers create topics by themselves.
  await driver.endLoad(topic);
  const deployment = deploymentOf(cluster);
  if (deployment !== undefined) {
    const { bootstrapServers } = await driver.access(deployment);
    await kafka({ bootstrapServers }, async (admin) => {
      try {
        await admin.deleteTopic(topic);
      } catch (error) {
        if (!(error instanceof BrokerError && error.code === "topic_not_found")) throw error;
      }
    });
  }
  await db.benchmarks.markTopicDeleted(id, clock.now());
}

/**
 * Deletes topics of benchmarks that ended while their broker did not answer, or without a worker. A
 * broker that does not answer now is asked again in the next round.
 */
export async function removeLeftTopics(
  tools: Pick<WorkerTools, "db" | "clock" | "drivers" | "kafka" | "log">,
): Promise<void> {
  for (const benchmark of await tools.db.benchmarks.withTopicLeft(["RUNNING"], BATCH_MAX)) {
    const cluster = await tools.db.clusters.load(benchmark.clusterId);
    if (cluster === undefined) continue;
    const driver = tools.drivers.find(cluster.region);
    if (driver === undefined) continue;
    try {
      await removeTopic(tools, driver, cluster, benchmark);
      tools.log.info({ benchmark: benchmark.id }, "deleted a topic that a benchmark left");
    } catch (error) {
      if (!(error instanceof BrokerError || error instanceof ProvisionError)) throw error;
      tools.log.warn({ benchmark: benchmark.id, err: error }, "a benchmark's topic is left");
    }
  }
}
