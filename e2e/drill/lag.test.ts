/** Lag, rates and remaining time in motion, beside a client that counts for itself. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCluster, deleteCluster, type TestCluster, unique } from "../product.ts";
import { clusterRateRows, lookAtCharts, topicRateRows } from "./charts.ts";
import { type Row, table } from "./comparison.ts";
import { etaRows, groupRateRows, lagRows, RULES } from "./measures.ts";
import { SCENARIOS } from "./scenarios.ts";

describe("the numbers in motion", () => {
  let cluster: TestCluster;
  const rows: (Row & { scenario: string })[] = [];

  beforeAll(async () => {
    cluster = await createCluster(unique("drill"));
    const looking = lookAtCharts(cluster);
    const running = Promise.allSettled(SCENARIOS.map((run) => run(cluster)));
    const results = await running.finally(() => looking.stop());
    const outcomes = results.map((result) => {
      if (result.status === "rejected") throw result.reason;
      return result.value;
    });
    for (const outcome of outcomes) {
      const found = [
        ...lagRows(outcome),
        ...groupRateRows(outcome),
        ...(await topicRateRows(cluster, outcome)),
        ...etaRows(outcome),
        ...outcome.facts,
      ];
      rows.push(...found.map((row) => ({ scenario: outcome.name, ...row })));
    }
    const ofCluster = await clusterRateRows(cluster, outcomes);
    rows.push(...ofCluster.map((row) => ({ scenario: "all", ...row })));
    process.stdout.write(`${RULES}\n\n${table(rows)}\n\n`);
  });
  afterAll(() => deleteCluster(cluster.id));

  it("are those of the counting client, within the limits", () => {
    const missed = rows.filter(({ holds }) => !holds);
    expect(missed.map(({ scenario, measure }) => `${scenario}: ${measure}`)).toEqual([]);
  });
});
