import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { assertBuilt, databaseClient, servedPrograms } from "./built-parts.ts";
import { Unusable } from "./settings.ts";

let clone: string;
beforeEach(() => {
  clone = mkdtempSync(join(tmpdir(), "millrace-built-"));
});
afterEach(() => rmSync(clone, { recursive: true, force: true }));

function build(file: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, "");
}

test("a clone that was never built is refused with all that is missing and what to do", () => {
  const client = databaseClient(clone);
  const programs = servedPrograms({}, clone);
  try {
    assertBuilt([client], [client, ...programs]);
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(Unusable);
    const { message, remedy } = error as Unusable;
    for (const { file } of [client, ...programs]) expect(message).toContain(file);
    expect(remedy).toContain("without MILLRACE_SKIP_BUILD");
  }
  build(client.file);
  assertBuilt([client], [client, ...programs]);
  expect(() => assertBuilt(programs)).toThrow("the console");
  for (const { file } of programs) build(file);
  assertBuilt(programs);
});

test("the broker is the one that MILLRACE_BROKER_BIN names", () => {
  const env = { MILLRACE_BROKER_BIN: join(clone, "another") };
  const programs = servedPrograms(env, clone);
  for (const { name, file } of programs) if (name === "the console") build(file);
  expect(() => assertBuilt(programs)).toThrow(env.MILLRACE_BROKER_BIN);
  build(env.MILLRACE_BROKER_BIN);
  assertBuilt(programs);
});
