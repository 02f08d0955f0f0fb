/** Many topics are read in a few requests. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { unique } from "../product.ts";
import { ApiProxy } from "./api-proxy.ts";
import { configuration } from "./configuration.ts";
import { buildProvider, Workspace, whyNot } from "./terraform.ts";

const TOPICS = 500;
const REFRESH_SECONDS_MAX = 10;
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

  it(`are refreshed within ${REFRESH_SECONDS_MAX} s and fewer than ${REFRESH_REQUESTS_MAX} requests`, async () => {
    const from = performance.now();
    const refreshed = await workspace.run(["plan", "-refresh-only", "-detailed-exitcode"], {
      endpoint: proxy.endpoint,
    });
    const seconds = (performance.now() - from) / 1000;
    console.log(`${TOPICS} topics: ${seconds.toFixed(1)} s, ${proxy.calls.length} requests`);
    expect(refreshed, refreshed.output).toMatchObject({ code: 0 });
    expect(seconds).toBeLessThan(REFRESH_SECONDS_MAX);
    expect(proxy.calls.length).toBeGreaterThan(2);
    expect(proxy.calls.length).toBeLessThan(REFRESH_REQUESTS_MAX);
  });
});
