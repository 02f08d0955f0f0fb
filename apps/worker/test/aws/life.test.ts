/** The engine, the driver and Terraform together, as they are in the product: nothing is killed. */
import { describe, expect, test } from "vitest";
import { hasEmulator } from "../../../../packages/provisioner/test/moto.ts";
import { drill } from "../aws-drill.ts";
import { awsSite } from "../aws-site-fixture.ts";

/** It takes 8 minutes on a free machine, and over 20 while the rest of the suite compiles. */
const LIFE_MS = 35 * 60_000;

describe.skipIf(!hasEmulator)("a cluster on an emulated AWS", () => {
  const site = awsSite();

  test("is made, paused, changed, set right after a change by hand, brought back and purged", {
    timeout: LIFE_MS,
  }, async () => {
    const said: string[] = [];
    const report = await drill(site(), { kills: 0, seed: 1, say: (line) => said.push(line) });
    expect(report, said.join("\n")).toMatchObject({
      kills: { worker: 0, terraform: 0 },
      retries: 0,
    });
  });
});
