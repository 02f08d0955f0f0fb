/** What a user of Terraform does with the product, from an empty one on. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { credentials, rest, unique } from "../product.ts";
import { configuration, imports } from "./configuration.ts";
import { buildProvider, Workspace, whyNot } from "./terraform.ts";

const TOPICS = 50;
const CLUSTER = "millrace_cluster.this";
const TOPIC = 'millrace_topic.events["events-007"]';

describe.skipIf(whyNot)(`an environment, a cluster and ${TOPICS} topics`, () => {
  const name = unique("tf");
  const secretFile = "reader.key";
  const wanted = { name, topics: TOPICS, secretFile };
  let workspace: Workspace;
  let clusterId: string;
  let environmentId: string;
  let planBeforeCreation: string;

  beforeAll(async () => {
    buildProvider();
    workspace = new Workspace(["main.tf", configuration({ ...wanted, isProtected: true })]);
    await workspace.plan();
    planBeforeCreation = JSON.stringify(await workspace.show("plan.bin"));
    await workspace.apply();
    const resources = await workspace.resources();
    clusterId = resources[CLUSTER].id;
    environmentId = resources["millrace_environment.this"].id;
  });

  afterAll(async () => {
    if (workspace === undefined) return;
    workspace.write("main.tf", configuration(wanted));
    await workspace.apply();
    await workspace.remove();
  });

  it("stand as they were written", async () => {
    const { body: cluster } = await rest("GET", `/v1/clusters/${clusterId}`);
    expect(cluster.status.phase).toBe("RUNNING");
    expect(cluster.spec).toMatchObject({ name, size: "dev", deletion_protection: true });
    const { body: topics } = await rest("GET", `/v1/clusters/${clusterId}/topics?page_size=1000`);
    const names = topics.items.map((topic: { name: string }) => topic.name);
    expect(names.filter((each: string) => each.startsWith("events-"))).toHaveLength(TOPICS);
  });

  it("are no change in the next plan", async () => {
    expect(await workspace.plan()).toEqual({});
  });

  it("leave no secret in what Terraform writes", async () => {
    const secret = readFileSync(join(workspace.folder, secretFile), "utf8").trim();
    expect(secret.length).toBeGreaterThan(20);
    expect(statSync(join(workspace.folder, secretFile)).mode & 0o777).toBe(0o600);
    await workspace.plan();
    // A saved plan is compressed: from outside no text in it can be found.
    const planNow = JSON.stringify(await workspace.show("plan.bin"));
    const written = [...workspace.files()].filter(
      ([path]) => !path.endsWith(secretFile) && !path.endsWith("plan.bin"),
    );
    expect(written.map(([path]) => path)).toContain(join(workspace.folder, "terraform.tfstate"));
    expect(planNow).toContain(clusterId);
    const plans = [
      ["the plan", planNow],
      ["the plan before anything was there", planBeforeCreation],
    ] as const;
    for (const [path, text] of [...written, ...plans]) {
      expect(text.includes(secret), path).toBe(false);
      expect(text.includes(credentials.apiKey), path).toBe(false);
    }
    // The key works, so what was looked for is the secret.
    const answer = await fetch(new URL(`/v1/clusters/${clusterId}`, credentials.apiUrl), {
      headers: { authorization: `Bearer ${secret}` },
    });
    expect(answer.status).toBe(200);
  });

  it("are not destroyed by a plan while the cluster is protected", async () => {
    const planned = await workspace.run(["plan", "-destroy"]);
    expect(planned.code).toBe(1);
    expect(planned.output).toContain("The cluster is protected from deletion");
    const { body: cluster } = await rest("GET", `/v1/clusters/${clusterId}`);
    expect(cluster.status.phase).toBe("RUNNING");
  });

  it("show a change that the console made, and take it back", async () => {
    const path = `/v1/clusters/${clusterId}/topics/events-007`;
    const changed = await rest("PATCH", path, { configs: { "retention.ms": "1000" } });
    expect(changed.status, JSON.stringify(changed.body)).toBe(200);
    const { headers } = await rest("GET", `/v1/clusters/${clusterId}`);
    const renamed = await rest(
      "PATCH",
      `/v1/clusters/${clusterId}`,
      { name: `${name}-renamed` },
      { "if-match": headers.get("etag") ?? "" },
    );
    expect(renamed.status, JSON.stringify(renamed.body)).toBe(200);
    expect(await workspace.plan()).toEqual({ [CLUSTER]: "update", [TOPIC]: "update" });
    await workspace.apply();
    expect(await workspace.plan()).toEqual({});
    const { body: topic } = await rest("GET", path);
    expect(topic.configs["retention.ms"].value).toBe("604800000");
  });

  it("show a topic that the console deleted, and re-create it", async () => {
    const path = `/v1/clusters/${clusterId}/topics/events-007`;
    expect((await rest("DELETE", path)).status).toBe(204);
    expect(await workspace.plan()).toEqual({ [TOPIC]: "create" });
    await workspace.apply();
    expect((await rest("GET", path)).status).toBe(200);
  });

  it("are taken over by another state without a change", async () => {
    const text = configuration({ name, topics: TOPICS, isProtected: true, keepsData: true });
    const ids = { environment: environmentId, cluster: clusterId, topics: TOPICS };
    const other = new Workspace(["main.tf", text], ["imports.tf", imports(ids)]);
    const imported = await other.apply();
    expect(imported).toContain(`${TOPICS + 2} imported, 0 added, 0 changed, 0 destroyed`);
    other.write("imports.tf", "");
    expect(await other.plan()).toEqual({});
    other.forget();
  });
});
