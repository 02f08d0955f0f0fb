import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemProcessTable } from "../local/process-table.ts";
import { TerraformProcess } from "./terraform-process.ts";

const table = systemProcessTable();
const fence = { operationId: "op_a", attempt: 1 };
let folder: string;
const started: number[] = [];

/** A program that does as Terraform does: it says a line, works, and heeds one interrupt. */
async function program(body: string): Promise<string> {
  const path = join(folder, "program.sh");
  await writeFile(path, `#!/bin/bash\n${body}\n`);
  await chmod(path, 0o700);
  return path;
}

function command(bin: string, more: object = {}) {
  const environment = { PATH: process.env.PATH ?? "" };
  return { bin, arguments: ["apply"], environment, fence, signal: undefined, ...more };
}

async function waitFor<T>(look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < 200; tries += 1) {
    const seen = await look();
    if (seen !== undefined) return seen;
    await sleep(25);
  }
  throw new Error("it did not happen in time");
}

async function read(name: string): Promise<string | undefined> {
  return await readFile(join(folder, name), "utf8").catch(() => undefined);
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "millrace-process-"));
});

afterEach(async () => {
  for (const pid of started.splice(0)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
  await rm(folder, { recursive: true, force: true });
});

describe("a run", () => {
  test("streams its lines and gets only the given environment", async () => {
    const bin = await program('echo "{\\"n\\":1}"; sleep 0.4; echo "{\\"n\\":2}"; env >&2; exit 3');
    const seen: [unknown, number][] = [];
    const began = performance.now();
    const onLine = (line: unknown) => void seen.push([line, performance.now() - began]);
    const result = await new TerraformProcess({ folder, table }).run(command(bin, { onLine }));
    expect(result).toMatchObject({ code: 3, interrupted: false });
    expect(seen.map(([line]) => line)).toEqual([{ n: 1 }, { n: 2 }]);
    expect((seen[1]?.[1] ?? 0) - (seen[0]?.[1] ?? 0)).toBeGreaterThan(150);
    const names = result.errors.split("\n").map((line) => line.split("=")[0]);
    expect(names.filter((name) => !["PATH", "PWD", "SHLVL", "_"].includes(name ?? ""))).toEqual([]);
    expect(await read("terraform.pid")).toBeUndefined();
  });

  test("that is aborted gets one interrupt and the grace period", async () => {
    const bin = await program(
      'n=0; trap "n=\\$((n+1))" INT; echo started; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done; echo "interrupts: $n" >&2',
    );
    const stop = new AbortController();
    const run = new TerraformProcess({ folder, table }).run(
      command(bin, { signal: stop.signal, onLine: () => stop.abort() }),
    );
    expect(await run).toMatchObject({ code: 0, interrupted: true, errors: "interrupts: 1" });
  });

  test("that ignores its interrupt is killed after the grace period, and not before", async () => {
    const bin = await program('trap "" INT; echo started; while true; do sleep 0.05; done');
    const stop = new AbortController();
    const began = performance.now();
    const run = new TerraformProcess({ folder, table, graceMs: 600 }).run(
      command(bin, { signal: stop.signal, onLine: () => stop.abort() }),
    );
    expect(await run).toMatchObject({ code: null, interrupted: true });
    expect(performance.now() - began).toBeGreaterThan(600);
  });

  test("is interrupted if its tick fails, and fails with that error", async () => {
    const bin = await program('trap "exit 0" INT; while true; do sleep 0.05; done');
    let ticks = 0;
    const onTick = async () => {
      ticks += 1;
      if (ticks === 3) throw new Error("the right is lost");
    };
    const run = new TerraformProcess({ folder, table }).run(command(bin, { onTick }));
    await expect(run).rejects.toThrow("the right is lost");
  });

  test("is interrupted in time while its tick hangs", async () => {
    const bin = await program('trap "exit 0" INT; echo started; while true; do sleep 0.05; done');
    const stop = new AbortController();
    let free = () => {};
    const onTick = async () => {
      stop.abort();
      await new Promise<void>((resolve) => {
        free = resolve;
      });
    };
    const process = new TerraformProcess({ folder, table });
    const run = process.run(command(bin, { signal: stop.signal, onTick }));
    await waitFor(() => (stop.signal.aborted ? true : undefined));
    await waitFor(() => (process.find() === undefined ? true : undefined));
    const release = setInterval(() => free(), 20);
    expect(await run).toMatchObject({ code: 0, interrupted: true });
    clearInterval(release);
  });

  test("of a missing program says so", async () => {
    const run = new TerraformProcess({ folder, table }).run(command("/nonexistent/terraform"));
    await expect(run).rejects.toMatchObject({ code: "unconfigured" });
  });
});

describe("a run that outlived its worker", () => {
  /** Started as a worker would, by a worker that is gone. */
  async function survivor(body: string, withPidFile: boolean): Promise<number> {
    const bin = await program(body);
    const { spawn } = await import("node:child_process");
    const child = spawn(bin, [`-chdir=${folder}`, "apply"], { detached: true, stdio: "ignore" });
    const pid = child.pid ?? 0;
    started.push(pid);
    const identity = await waitFor(() => table.find(pid));
    if (withPidFile) {
      const worker = { pid: 999_999, startMark: "gone" };
      const record = { process: identity, worker, fence, interrupted: false };
      await writeFile(join(folder, "terraform.pid"), JSON.stringify(record));
    }
    await waitFor(() => read("ready"));
    return pid;
  }

  const heeding = (end: string) =>
    `cd "$(dirname "$0")"; trap 'echo -n x >> interrupts; sleep 0.3; ${end}' INT; touch ready; while true; do sleep 0.05; done`;

  test.each([true, false])(
    "is interrupted once and waited for, with a pid file: %s",
    async (file) => {
      const pid = await survivor(heeding("exit 0"), file);
      expect(await new TerraformProcess({ folder, table }).settle(undefined)).toBe(true);
      expect(table.find(pid)).toBeUndefined();
      expect(await read("interrupts")).toBe("x");
    },
  );

  test("is not interrupted a second time by the next worker", async () => {
    await survivor(heeding("true"), true);
    const first = new AbortController();
    const settling = new TerraformProcess({ folder, table }).settle(fence, first.signal);
    await waitFor(() => read("interrupts"));
    first.abort();
    await expect(settling).rejects.toMatchObject({ code: "aborted" });
    await new TerraformProcess({ folder, table, graceMs: 400 }).settle(fence);
    expect(await read("interrupts")).toBe("x");
  });

  test("is cleaned up with its plugins if it was killed", async () => {
    const plugin = join(folder, "terraform-provider-test");
    await writeFile(plugin, "#!/bin/bash\nwhile true; do sleep 0.05; done\n");
    await chmod(plugin, 0o700);
    const pid = await survivor(
      `cd "$(dirname "$0")"; ./terraform-provider-test & echo $! > plugin; touch ready; wait`,
      true,
    );
    const pluginPid = Number(await waitFor(() => read("plugin")));
    process.kill(pid, "SIGKILL");
    await waitFor(() => (table.find(pid) ? undefined : true));
    expect(table.find(pluginPid)).toBeDefined();
    await new TerraformProcess({ folder, table }).settle(undefined);
    expect(table.find(pluginPid)).toBeUndefined();
  });

  test("of a live worker is left alone unless it is fenced", async () => {
    await survivor(heeding("exit 0"), false);
    const identity = table.findByArgument(`-chdir=${folder}`)[0];
    const worker = table.find(process.ppid);
    const record = { process: identity, worker, fence, interrupted: false };
    await writeFile(join(folder, "terraform.pid"), JSON.stringify(record));
    const next = new TerraformProcess({ folder, table });
    await expect(next.settle(undefined)).rejects.toMatchObject({ code: "busy" });
    await expect(next.settle(fence)).rejects.toMatchObject({ code: "busy" });
    expect(await next.settle({ ...fence, attempt: 2 })).toBe(true);
  });
});
