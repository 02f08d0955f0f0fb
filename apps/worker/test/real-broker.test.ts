/** End to end: the shipped program with the real broker. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { bootstrapServers, type Cluster, type MetricName } from "@millrace/domain";
import { queryMetrics } from "@millrace/metrics";
import { describe, expect, test } from "vitest";
import { BUSY_MS_MAX, installation } from "./fixture.ts";
import { adminHttp, brokerBin, consume, produce } from "./real-broker.ts";

const TIMEOUT_MS = 240_000;
const TOPIC = "orders";

const it = installation();

describe.skipIf(brokerBin === undefined)("with the real broker", () => {
  test("a cluster is created, used, measured, survives kill -9 of its broker, and is deleted", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await it.startProduct({ stopBrokers: true, brokerBin: brokerBin ?? "" });
    const { cluster, operation } = await it.requestCluster("real");
    const created = await it.waitForOperation(cluster, operation.id);
    expect(created).toMatchObject({ phase: "SUCCEEDED", error: undefined });
    const running = await it.waitForPhase(cluster, "RUNNING");
    const address = bootstrapServers(running) ?? "";

    const { topics, groups } = await adminHttp(it.home, running);
    await topics.create({ name: TOPIC, partitions: 2, configs: {} });
    await produce(address, TOPIC, 500);
    const measured = async () => Object.fromEntries(await latest(running));
    // The lag of an inactive group does not count, so the consumer stays in the group.
    await consume(address, TOPIC, 300, () =>
      expect.poll(measured, { timeout: BUSY_MS_MAX, interval: 250 }).toMatchObject({
        bytes_in_rate: expect.any(Number),
        produce_latency_p99: expect.any(Number),
        fetch_latency_p99: expect.any(Number),
        consumer_lag: 200,
      }),
    );

    const [before] = it.brokersOf(cluster.id);
    process.kill(before ?? 0, "SIGKILL");
    await it.waitForPhase(cluster, "DEGRADED");
    await it.waitForPhase(cluster, "RUNNING");
    const [group] = (await groups.list()).groups;
    const ends = group?.partitions.reduce((sum, each) => sum + (each.endOffset ?? 0n), 0n);
    expect(group).toMatchObject({
      ...{ groupId: "readers", members: 0, committedOffsetSum: 300n, lag: 200n },
    });
    expect(ends).toBe(500n);

    const deletion = await it.requestDeletion(running);
    expect((await it.waitForOperation(cluster, deletion.id)).phase).toBe("SUCCEEDED");
    expect(it.brokersOf(cluster.id)).toEqual([]);
    expect(existsSync(join(it.home, "clusters", cluster.id))).toBe(false);
  });
});

/** The newest value of each series. */
async function latest(cluster: Cluster): Promise<Map<MetricName, number>> {
  const series = await queryMetrics(it.db.metrics, {
    clusterId: cluster.id,
    from: new Date(Date.now() - 60_000),
    to: new Date(),
    stepSeconds: 2,
  });
  return new Map(
    series.flatMap(({ name, points }) => {
      const last = points.findLast(([, value]) => value !== null)?.[1];
      return typeof last === "number" ? [[name, last] as const] : [];
    }),
  );
}
