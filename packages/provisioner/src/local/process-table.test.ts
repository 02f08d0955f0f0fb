import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { isSameProcess, PsProcessTable, systemProcessTable } from "./process-table.ts";

const hasPs = existsSync("/bin/ps") || existsSync("/usr/bin/ps");

for (const [name, table] of [
  ["of this system", systemProcessTable()],
  ...(hasPs ? [["by ps", new PsProcessTable()] as const] : []),
] as const) {
  test(`the table ${name} knows a process by its start, and forgets it when it ends`, async () => {
    const child = spawn("sleep", ["61.25"], { stdio: "ignore" });
    await once(child, "spawn");
    const pid = child.pid ?? 0;
    const first = table.find(pid);
    expect(first?.pid).toBe(pid);
    expect(first && isSameProcess(first, table.find(pid))).toBe(true);
    expect(table.findByArguments(["61.25"]).map((found) => found.pid)).toContain(pid);
    expect(table.findByArguments(["1.25"])).toEqual([]);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(table.find(pid)).toBeUndefined();
  });

  test(`the table ${name} sees no process where only a zombie is left`, async () => {
    // The shell's child ends while the shell, replaced by sleep, never collects it.
    const parent = spawn("sh", ["-c", "true & echo $!; exec sleep 62.5"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [output] = await once(parent.stdout, "data");
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(table.find(Number(String(output)))).toBeUndefined();
    parent.kill("SIGKILL");
    await once(parent, "exit");
  });
}
