import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BoundedLog } from "./bounded-log.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-log-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function writeLines(file: string, count: number): Promise<void> {
  const log = new BoundedLog(file, 1_000);
  for (let line = 0; line < count; line += 1) log.write(`${String(line).padStart(9)}\n`);
  log.end();
  await finished(log);
}

test("a program that never restarts keeps its log within two files of the bound", async () => {
  const file = join(folder, "api.log");
  await writeLines(file, 5_000);
  expect(statSync(file).size).toBeLessThanOrEqual(1_000);
  expect(statSync(`${file}.1`).size).toBeLessThanOrEqual(1_000);
  const kept = readFileSync(`${file}.1`, "utf8") + readFileSync(file, "utf8");
  expect(kept.endsWith(`${String(4_999).padStart(9)}\n`)).toBe(true);
  expect(kept.length).toBeGreaterThanOrEqual(1_000);
});

test("a restart appends, and what an earlier life wrote counts", async () => {
  const file = join(folder, "worker.log");
  await writeLines(file, 60);
  await writeLines(file, 60);
  expect(statSync(file).size).toBe(200);
  expect(statSync(`${file}.1`).size).toBe(1_000);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});
