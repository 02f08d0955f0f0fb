/** Every example of the provider's documentation is applied as it stands. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { buildProvider, EXAMPLES, exampleFolders, Workspace, whyNot } from "./terraform.ts";

const PROVIDER_FILE = "provider/provider.tf";

describe.skipIf(whyNot)("the example", () => {
  let workspace: Workspace;

  beforeAll(buildProvider);

  beforeEach(() => {
    workspace = new Workspace();
  });

  afterEach(async () => {
    await workspace.remove();
  });

  it.each(exampleFolders())(
    "%s: applied, no change in the next plan, destroyed",
    async (folder) => {
      workspace.copy(folder);
      const files = [...workspace.files()].filter(([path]) => path.endsWith(".tf"));
      // An example of one resource leaves out what all have.
      if (!files.some(([, text]) => text.includes("required_providers"))) {
        workspace.write("provider.tf", readFileSync(join(EXAMPLES, PROVIDER_FILE), "utf8"));
      }
      expect(await workspace.apply()).toContain("Apply complete!");
      expect(await workspace.plan()).toEqual({});
      const destroyed = await workspace.run(["destroy", "-auto-approve"]);
      expect(destroyed, destroyed.output).toMatchObject({ code: 0 });
      expect(await workspace.resources()).toEqual({});
    },
  );

  it("of each resource, data source and ephemeral resource is there", async () => {
    workspace.copy("provider");
    const ran = await workspace.run(["providers", "schema", "-json"]);
    const [schema] = Object.values(
      JSON.parse(ran.output.slice(ran.output.indexOf("{"))).provider_schemas,
    ) as [Record<string, Record<string, unknown>>];
    const kinds = {
      resources: schema.resource_schemas,
      "data-sources": schema.data_source_schemas,
      "ephemeral-resources": schema.ephemeral_resource_schemas,
    };
    const wanted = Object.entries(kinds).flatMap(([kind, names]) =>
      Object.keys(names ?? {}).map((name) => `${kind}/${name}`),
    );
    expect(wanted.length).toBeGreaterThan(10);
    expect(exampleFolders()).toEqual(expect.arrayContaining(wanted));
  });
});
