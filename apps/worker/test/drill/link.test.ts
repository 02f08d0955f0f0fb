/** `npm run drill:link`: see `link-drill.ts`. MILLRACE_DRILL_SEED repeats a run's order; MILLRACE_DRILL_DISRUPTIONS sets how many. */
import { expect, test } from "vitest";
import { installation } from "../fixture.ts";
import { linkDrill } from "../link-drill.ts";
import { LinkSite } from "../link-site.ts";
import { brokerBin } from "../real-broker.ts";

const disruptions = Number(process.env.MILLRACE_DRILL_DISRUPTIONS ?? 50);
const seed = Number(process.env.MILLRACE_DRILL_SEED ?? Date.now() % 1_000_000);

/** From the cut, or from when another gateway takes connections, to an answer of each broker. */
const BACK_MS_MAX = 5_000;

const it = installation();

test("links cut, gateways and workers killed: brokers are back, each as itself, nothing twice", async () => {
  expect(brokerBin, "build the broker first: npm run build").toBeDefined();
  const say = (line: string) => process.stdout.write(`drill:link: ${line}\n`);
  say(`${disruptions} disruptions, seed ${seed}`);
  const site = await LinkSite.open(it);
  try {
    const clusters = await Promise.all([site.cluster("first"), site.cluster("second")]);
    const { reconnectedMs, ...calls } = await linkDrill(site, clusters, { disruptions, seed, say });
    for (const [kind, times] of Object.entries(reconnectedMs)) {
      const sorted = [...times].sort((a, b) => a - b);
      const median = sorted[Math.floor(sorted.length / 2)];
      say(
        `${kind}: ${times.length} times, back after ${median} ms (median), ${sorted.at(-1)} ms at most`,
      );
      expect(sorted.at(-1), `${kind}: back within`).toBeLessThan(BACK_MS_MAX);
    }
    say(`calls: ${JSON.stringify(calls)}`);
  } finally {
    await site.close();
  }
});
