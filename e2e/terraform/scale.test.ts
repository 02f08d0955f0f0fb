/** Many topics are read in a few requests. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { unique } from "../product.ts";
import { ApiProxy } from "./api-proxy.ts";
import { configuration } from "./configuration.ts";
import { buildProvider, Workspace, whyNot } from "./terraform.ts";

const TOPICS = 500;
const REFRESH_REQUESTS_MAX = 30;

describe.skipIf(whyNot)(`${TOPICS} topics`, () => {
  const name = unique("tf");
  let workspace: Workspace;
  let proxy: ApiProxy;

  beforeAll(async () => {
    buildProvider();
    proxy = await ApiProxy.start();
    workspace = new Workspace([
      "main.tf",
      configuration({ name, topics: TOPICS, requestsPerSecond: 1000 }),
    ]);
    await workspace.apply({ args: ["-parallelism=20"] });
    // The pace that a user has who writes nothing.
    workspace.write("main.tf", configuration({ name, topics: TOPICS }));
  });

  afterAll(async () => {
    proxy?.stop();
    await workspace?.remove();
  });

  /** Seconds of a plan that finds nothing to change. */
  async function timed(refresh: string): Promise<number> {
    proxy.calls.length = 0;
    const from = performance.now();
    const planned = await workspace.run(["plan", "-detailed-exitcode", refresh], {
      endpoint: proxy.endpoint,
    });
    expect(planned.code, planned.output.slice(-2_000)).toBe(0);
    return (performance.now() - from) / 1000;
  }

  it(`are refreshed with fewer than ${REFRESH_REQUESTS_MAX} requests`, async () => {
    // What Terraform does with so many resources before it asks anybody: its own time, not ours.
    const planning = await timed("-refresh=false");
    expect(proxy.calls.length).toBeLessThan(3);
    const refreshed = await timed("-refresh=true");
    console.log(
      `${TOPICS} topics: plan ${planning.toFixed(1)} s, with refresh ${refreshed.toFixed(1)} s, ` +
        `${proxy.calls.length} requests`,
    );
    expect(proxy.calls.length).toBeGreaterThan(2);
    expect(proxy.calls.length).toBeLessThan(REFRESH_REQUESTS_MAX);
  });
});
