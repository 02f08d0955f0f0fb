/** A short drill: the long one is `npm run drill:aws`. */
import { describe, expect, test } from "vitest";
import { hasEmulator } from "../../../../packages/provisioner/test/moto.ts";
import { drill } from "../aws-drill.ts";
import { awsSite } from "../aws-site-fixture.ts";

const KILLS = 5;
const SEED = 5;
const DRILL_MS = 20 * 60_000;

describe.skipIf(!hasEmulator)("a cluster on an emulated AWS", () => {
  const site = awsSite();

  test("comes to every end that was asked for, whatever is killed on the way", {
    timeout: DRILL_MS,
  }, async () => {
    const said: string[] = [];
    const report = await drill(site(), {
      ...{ kills: KILLS, seed: SEED, short: true },
      say: (line) => said.push(line),
    });
    // The last operation may be through before the last kill.
    const kills = report.kills.worker + report.kills.terraform;
    expect(kills, said.join("\n")).toBeGreaterThanOrEqual(KILLS - 1);
    expect(report.operations).toBe(4);
  });
});
