import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runningDatabase } from "./postgres.ts";

test("a database is found while its server runs, and not by what a killed server left behind", async () => {
  const home = mkdtempSync(join(tmpdir(), "millrace-postmaster-"));
  const dir = join(home, "postgres");
  mkdirSync(dir);
  expect(runningDatabase(dir, "millrace")).toBeUndefined();
  const server = spawn(process.execPath, ["-e", "setInterval(() => {}, 1_000)", dir]);
  await once(server, "spawn");
  writeFileSync(`${dir}.password`, "secret\n");
  writeFileSync(
    join(dir, "postmaster.pid"),
    `${server.pid}\n${dir}\n1795000000\n5433\n\n127.0.0.1\n`,
  );
  expect(runningDatabase(dir, "millrace")).toBe(
    "postgres://postgres:secret@127.0.0.1:5433/millrace",
  );
  server.kill("SIGKILL");
  await once(server, "exit");
  expect(runningDatabase(dir, "millrace")).toBeUndefined();
  rmSync(home, { recursive: true });
});
