/** A short drill: the long one is `npm run drill:link`. */
import { describe, expect, test } from "vitest";
import { installation } from "./fixture.ts";
import { DISRUPTIONS, linkDrill } from "./link-drill.ts";
import { LinkSite } from "./link-site.ts";
import { brokerBin } from "./real-broker.ts";

const SEED = 14;

const it = installation();

describe.skipIf(brokerBin === undefined)("two clusters without admin ports", () => {
  test("serve the API whatever is cut or killed between them, each as itself, nothing twice", async () => {
    const site = await LinkSite.open(it);
    try {
      const clusters = await Promise.all([site.cluster("first"), site.cluster("second")]);
      const said: string[] = [];
      const say = (line: string) => said.push(line);
      const disruptions = DISRUPTIONS.length + 1;
      const report = await linkDrill(site, clusters, { disruptions, seed: SEED, say });
      expect(said).toHaveLength(disruptions);
      expect(report.acknowledged).toBeGreaterThan(report.unknown);
    } finally {
      await site.close();
    }
  });
});
