/** The shipped program. */
import { once } from "node:events";
import { expect, test } from "vitest";
import { installation } from "./fixture.ts";

const it = installation();
const TIMEOUT_MS = 240_000;

test("Ctrl-C, which arrives as two signals, stops the brokers and exits 0", {
  timeout: TIMEOUT_MS,
}, async () => {
  const maker = await it.startWorker();
  const { cluster, operation } = await it.requestCluster("ctrl-c");
  await it.waitForOperation(cluster, operation.id);
  await maker.kill();
  expect(it.brokersOf(cluster.id)).toHaveLength(1);

  const product = await it.startProduct({ stopBrokers: true });
  product.kill("SIGINT");
  product.kill("SIGTERM");
  await once(product, "exit");
  expect(product.exitCode).toBe(0);
  expect(it.brokersOf(cluster.id)).toEqual([]);
});

test("a broker that does not serve Kafka fails the operation, says why, and is not left running", {
  timeout: TIMEOUT_MS,
}, async () => {
  await it.startProduct({ stopBrokers: false });
  const { cluster, operation } = await it.requestCluster("no-kafka");
  const ended = await it.waitForOperation(cluster, operation.id);
  expect(ended).toMatchObject({ phase: "FAILED", error: { step: "smoke_check" } });
  expect(ended.error?.message).toContain("broker");
  await it.waitForPhase(cluster, "FAILED");
  expect(it.brokersOf(cluster.id)).toEqual([]);
});
