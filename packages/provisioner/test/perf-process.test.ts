import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BenchmarkLoad, BenchmarkSample } from "@millrace/domain";
import { afterEach, beforeEach, expect, test } from "vitest";
import { PerfProcess } from "../src/local/perf-process.ts";
import { systemProcessTable } from "../src/local/process-table.ts";

const FAKE_PERF = join(import.meta.dirname, "fake-perf.mjs");
const table = systemProcessTable();
let home: string;
let tests = 0;
let load: BenchmarkLoad;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "millrace-perf-"));
  tests += 1;
  load = {
    ...{ workload: "end_to_end", topic: `millrace-benchmark-test-${process.pid}-${tests}` },
    ...{ partitions: 4, recordSizeBytes: 1_024, recordsPerSecond: 100 },
    ...{ warmUpSeconds: 1, testSeconds: 2, bytesMax: 307_200 },
  };
});

afterEach(async () => {
  for (const { pid } of table.findByArgument(load.topic)) process.kill(pid, "SIGKILL");
  await rm(home, { recursive: true, force: true });
});

function perf(mode: string, options: { marginMs?: number; graceMs?: number } = {}) {
  const environment = { PATH: process.env.PATH ?? "", FAKE_PERF: mode };
  const program = { command: [process.execPath, FAKE_PERF], environment } as const;
  return new PerfProcess({ home, program, table, ...options });
}

const signIn = {
  rootCertificate: "-----BEGIN\nEND-----\n",
  user: "__millrace",
  password: "s3cret",
};

function target() {
  return {
    kafka: { bootstrapServers: "127.0.0.1:9092", signIn },
    perfFile: join(home, "perf.properties"),
  };
}

function run(process: PerfProcess, signal = new AbortController().signal) {
  const samples: BenchmarkSample[] = [];
  const onSample = (sample: BenchmarkSample) => samples.push(sample);
  return { samples, ended: process.run(load, target(), { signal, onSample }) };
}

test("the load signs in with a file that only its owner can read, and that goes with it", async () => {
  const { perfFile } = target();
  const seen: { mode: number; text: string }[] = [];
  await perf("").run(load, target(), {
    signal: new AbortController().signal,
    onSample: () =>
      seen.push({
        mode: statSync(perfFile).mode & 0o777,
        text: readFileSync(perfFile, "utf8"),
      }),
  });
  expect(existsSync(perfFile)).toBe(false);
  expect(seen[0]).toEqual({
    mode: 0o600,
    text: [
      "security.protocol=SASL_SSL",
      "sasl.mechanism=SCRAM-SHA-256",
      'sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="__millrace" password="s3cret";',
      "ssl.truststore.type=PEM",
      "ssl.truststore.certificates=-----BEGIN\\nEND-----",
      "",
    ].join("\n"),
  });
});

test("a load is run with its bounds, and its samples and report are read", async () => {
  const { samples, ended } = run(perf(""));
  const latencyMs = { p50: 1, p95: 2, p99: 3, p999: 4, max: 5 };
  const flow = { recordsPerSecond: 100, bytesPerSecond: 102_400, errors: 0, latencyMs };
  expect(await ended).toEqual({
    ...{ durationSeconds: 2, consumed: undefined, endToEndLatencyMs: undefined },
    ...{ catchUp: undefined, unsentRecords: 2 },
    produced: { records: 1_000, bytes: 1_024_000, ...flow },
  });
  expect(samples.map(({ elapsedSeconds, phase }) => [elapsedSeconds, phase])).toEqual([
    [1, "warmup"],
    [2, "test"],
    [3, "test"],
  ]);
  expect(samples[0]).toMatchObject({ lagRecords: 7, consumed: flow, produced: flow });
});

test.each([
  ["errors", "the load failed: 500 of 1500 records failed", ""],
  ["broken", "the load failed: its program ended with code 1", "connection refused"],
  ["silent", "the load ended without a report", ""],
])("%s: the failure says why", async (mode, message, detail) => {
  const error = await run(perf(mode)).ended.catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "benchmark_failed", message, retryable: false });
  expect((error as { detail: string }).detail).toContain(detail);
});

test("a few failed records are part of the report", async () => {
  const report = await run(perf("error")).ended;
  expect(report.produced).toMatchObject({ records: 1_000, errors: 3 });
});

test("a process that only names the topic is left alone", async () => {
  const wait = "setInterval(() => {}, 1000)";
  const other = spawn(process.execPath, ["-e", wait, "--", "--topic", load.topic]);
  await once(other, "spawn");
  while (table.findByArgument(load.topic).length === 0) await new Promise(setImmediate);
  await perf("").end(load.topic);
  expect(table.findByArgument(load.topic).map(({ pid }) => pid)).toEqual([other.pid]);
});

test("a program that is not there is named", async () => {
  const program = { command: ["/nonexistent/millrace"], environment: {} } as const;
  const { ended } = run(new PerfProcess({ home, program, table }));
  await expect(ended).rejects.toMatchObject({ code: "benchmark_failed" });
});

test.each(["endless", "deaf"])("%s: an abort ends the program", async (mode) => {
  const abort = new AbortController();
  const { samples, ended } = run(perf(mode, { graceMs: 300 }), abort.signal);
  while (samples.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  abort.abort();
  await expect(ended).rejects.toMatchObject({ code: "aborted" });
  expect(table.findByArgument(load.topic)).toEqual([]);
});

test("a load that goes on beyond its time is ended and failed", async () => {
  load = { ...load, warmUpSeconds: 0, testSeconds: 0 };
  const { ended } = run(perf("endless", { marginMs: 500, graceMs: 300 }));
  await expect(ended).rejects.toThrow("the load did not end in time");
  expect(table.findByArgument(load.topic)).toEqual([]);
});

test("somebody else's signal is no success", async () => {
  const { samples, ended } = run(perf("endless"));
  while (samples.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  for (const { pid } of table.findByArgument(load.topic)) process.kill(pid, "SIGTERM");
  await expect(ended).rejects.toThrow("the load failed: ended by a signal");
});

test.each(["endless", "deaf"])("%s: what a killed worker left is found and ended", async (mode) => {
  // What a worker leaves has nobody who reads its output.
  const child = spawn(process.execPath, [FAKE_PERF, "perf", "produce", "--topic", load.topic], {
    ...{ detached: true, stdio: "ignore" },
    env: { PATH: process.env.PATH, FAKE_PERF: mode },
  });
  await once(child, "spawn");
  const other = perf("", { graceMs: 1_000 });
  while (table.findByArgument(load.topic).length === 0) await new Promise(setImmediate);
  await other.end(load.topic);
  expect(table.findByArgument(load.topic)).toEqual([]);
  await other.end(load.topic);
});
