import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findTerraform, isNewEnough, terraformPaths } from "./aws-tools.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-launcher-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A program that says what Terraform of that version says, or what `script` does. */
function terraform(name: string, script: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return path;
}

const saying = (version: string) => `echo '{"terraform_version":"${version}"}'`;

describe("Terraform", () => {
  it.each([
    ["1.11.0", true],
    ["1.11.4", true],
    ["1.12.0-beta1", true],
    ["2.0.0", true],
    ["1.5.7", false],
    ["0.15.0", false],
    ["", false],
    [undefined, false],
  ])("%s: new enough is %s", (version, expected) => {
    expect(isNewEnough(version)).toBe(expected);
  });

  it("is taken where it is new enough", () => {
    const bin = terraform("new", saying("1.11.4"));
    expect(findTerraform({ MILLRACE_TERRAFORM_BIN: bin })).toEqual({ bin });
  });

  it("is named with its version where it is too old, and handed to nobody", () => {
    const bin = terraform("old", saying("1.5.7"));
    const found = findTerraform({ MILLRACE_TERRAFORM_BIN: bin });
    expect(found).toEqual({ bin: "", refusal: `${bin} is Terraform 1.5.7` });
    expect(terraformPaths(found)).toMatchObject({ MILLRACE_TERRAFORM_BIN: "" });
  });

  it.each([
    ["is not there", undefined],
    ["fails", "exit 1"],
    ["is another program", "echo hello"],
    ["tells something else", "echo '{}'"],
  ])("is refused where it %s", (what, script) => {
    const bin = script ? terraform(what, script) : join(folder, "nowhere");
    const found = findTerraform({ MILLRACE_TERRAFORM_BIN: bin });
    expect(found).toEqual({ bin: "", refusal: `${bin} does not tell a version` });
  });

  it("is not waited for without end", () => {
    const bin = terraform("silent", "exec sleep 60");
    const startedAt = Date.now();
    expect(findTerraform({ MILLRACE_TERRAFORM_BIN: bin }).bin).toBe("");
    expect(Date.now() - startedAt).toBeLessThan(40_000);
  });
});

describe("with-aws-tools", () => {
  const program = join(import.meta.dirname, "with-aws-tools.ts");
  const run = (bin: string) =>
    spawnSync(process.execPath, [program, "sh", "-c", 'echo "$MILLRACE_TERRAFORM_BIN"'], {
      encoding: "utf8",
      env: { ...process.env, MILLRACE_TERRAFORM_BIN: bin },
    });

  it("hands the program on", () => {
    const bin = terraform("handed-on", saying("1.12.0"));
    expect(run(bin)).toMatchObject({ status: 0, stdout: `${bin}\n` });
  });

  it("runs nothing with a Terraform that is too old", () => {
    const bin = terraform("too-old", saying("1.5.7"));
    const { status, stdout, stderr } = run(bin);
    expect(status).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain(`${bin} is Terraform 1.5.7`);
    expect(stderr).toContain("install Terraform 1.11 or later");
  });
});
