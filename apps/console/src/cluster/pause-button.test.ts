import { expect, test } from "vitest";
import { awsCluster, localCluster } from "./cluster.fixture.ts";
import { estimateOfCluster } from "./cluster-estimate.ts";
import { costText } from "./pause-button.tsx";

test("a pause saves the machine, not the volume; on this machine there is nothing to save", () => {
  const cluster = awsCluster();
  const running = estimateOfCluster(cluster, { paused: false }).total;
  const paused = estimateOfCluster(cluster, { paused: true }).total;
  expect(paused).toBeGreaterThan(0);
  expect(paused).toBeLessThan(running);
  expect(costText(cluster)).toContain(`$${paused.toFixed(2)} per month instead of`);
  expect(costText(localCluster())).not.toContain("$");
});

test("what only holds data costs less than what is paused", () => {
  const cluster = awsCluster({ status: { phase: "PENDING_PURGE" } });
  const paused = estimateOfCluster(awsCluster(), { paused: true }).total;
  expect(estimateOfCluster(cluster).total).toBeLessThan(paused);
});
