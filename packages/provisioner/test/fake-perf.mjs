#!/usr/bin/env node
/**
 * Stands in for `millrace perf` in tests of what surrounds it: it takes the same command line, prints the same
 * lines, and ends on SIGTERM with a report. The environment variable FAKE_PERF makes it misbehave:
 *
 *   endless   goes on until it is ended, also when nobody reads what it says
 *   deaf      goes on, and SIGTERM does not end it
 *   errors    reports many failed records, and ends with 1
 *   error     reports a few failed records, and ends with 1
 *   broken    ends with 1 and words on standard error
 *   silent    ends with 0 and no report
 */
import { parseArgs } from "node:util";

const mode = process.env.FAKE_PERF ?? "";
const [, workload, ...flags] = process.argv.slice(2);
const names = ["bootstrap-server", "topic", "partitions", "record-size", "throughput", "warmup"];
const more = ["command-config", "duration", "max-bytes", "producers", "acks", "progress"];
const { values } = parseArgs({
  args: flags,
  options: Object.fromEntries([...names, ...more].map((name) => [name, { type: "string" }])),
});
const rate = Number(values.throughput);
const size = Number(values["record-size"]);
const latency = { p50: 1, p95: 2, p99: 3, p999: 4, max: 5 };
const flow = (records, errors = 0) => ({
  ...{ records, bytes: records * size, errors, latency_ms: latency },
  ...{ records_per_second: rate, bytes_per_second: rate * size },
});

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function progress(second) {
  const phase = second <= Number(values.warmup) ? "warmup" : "test";
  const produced = flow(second * rate);
  const consumed = workload === "produce" ? null : { ...flow(second * rate), lag_records: 7 };
  say({ kind: "progress", elapsed_seconds: second, phase, produced, consumed });
}

function report(endedBy, errors = 0) {
  const summary = { ...latency, min: 0.5, mean: 1.5, p75: 1.7, p90: 1.9 };
  const produced = { ...flow(rate * 10, errors), latency_ms: summary };
  say({
    ...{ kind: "report", version: 1, workload, started_at: new Date().toISOString() },
    ...{ duration_seconds: Number(values.duration), ended_by: endedBy, failure: null },
    ...{ parameters: values, produced, consumed: null, end_to_end: null, catch_up: null },
    ...{ verification: null, samples: [], client: { requests: 3, unsent_records: 2 } },
  });
}

process.on("SIGTERM", () => {
  if (mode === "deaf") return;
  report("signal");
  process.exit(0);
});

// A worker that was killed reads no more.
if (mode === "endless") process.stdout.on("error", () => {});

if (mode === "broken") {
  console.error("cannot connect to 127.0.0.1:1: connection refused");
  process.exit(1);
} else if (mode !== "silent") {
  for (const second of [1, 2, 3]) progress(second);
  if (mode === "endless" || mode === "deaf") setInterval(() => progress(4), 1_000);
  else {
    const errors = { error: 3, errors: 500 }[mode] ?? 0;
    report("duration", errors);
    process.exitCode = errors > 0 ? 1 : 0;
  }
}
