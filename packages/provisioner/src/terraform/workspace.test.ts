import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemProcessTable } from "../local/process-table.ts";
import { Workspace } from "./workspace.ts";

let parent: string;

/** A workspace whose Terraform is this script. */
async function workspaceOf(script: string): Promise<Workspace> {
  const bin = join(parent, "terraform.sh");
  await writeFile(bin, `#!/bin/bash\n${script}\n`);
  await chmod(bin, 0o700);
  return new Workspace({
    folder: join(parent, "stack"),
    program: { bin, path: process.env.PATH ?? "", home: "/nonexistent", credentials: {} },
    cliConfig: "",
    table: systemProcessTable(),
    now: Date.now,
  });
}

async function validated(script: string): Promise<void> {
  const workspace = await workspaceOf(script);
  await workspace.session({}, async (run) => await run.validate());
}

beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), "millrace-workspace-"));
});

afterEach(async () => await rm(parent, { recursive: true, force: true }));

test("an invalid stack is rejected without a retry", async () => {
  const answer = { diagnostics: [{ severity: "error", summary: "Unsupported argument" }] };
  await expect(validated(`echo '${JSON.stringify(answer)}'; exit 1`)).rejects.toMatchObject({
    code: "config",
    retryable: false,
  });
});

test.each([
  ["before it said anything", "kill -9 $$"],
  ["in the middle of its answer", "echo '{\"diagno'; kill -9 $$"],
])("a validation that is killed %s may be tried again", async (_, script) => {
  await expect(validated(script)).rejects.toMatchObject({ code: "plan_failed", retryable: true });
});
