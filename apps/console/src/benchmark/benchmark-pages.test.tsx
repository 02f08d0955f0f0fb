import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test, vi } from "vitest";
import { awsCluster, localCluster } from "../cluster/cluster.fixture.ts";
import { benchmark, report } from "./benchmark.fixture.ts";
import { line, spanOf } from "./benchmark-charts.tsx";
import { FigureTable, isSameLoad } from "./benchmark-comparison.tsx";
import { newDraft } from "./benchmark-draft.ts";
import { refusal, toggled } from "./benchmark-list.tsx";
import { Behind } from "./benchmark-page.tsx";
import { BenchmarkTable } from "./benchmark-table.tsx";
import { changeText, figuresOf, mainLatency } from "./benchmark-words.ts";
import { Consequences } from "./run-benchmark-dialog.tsx";

vi.mock("next/navigation", () => ({ useRouter: () => ({ push: () => {} }) }));

function html(node: React.ReactNode): string {
  return renderToStaticMarkup(<MantineProvider>{node}</MantineProvider>);
}

function row(change: Parameters<typeof benchmark>[0]): string {
  const props = { clusterId: "clu_test", chosen: [], onChoose: () => {} };
  return html(<BenchmarkTable {...props} benchmarks={[benchmark(change)]} />);
}

test("a benchmark is listed with its load, its main figures, and what was tuned before it", () => {
  const tuning = {
    ...benchmark().tuning,
    changes: [{ field: "block_cache_bytes" as const, from: 128 * 1024 ** 2, to: 64 * 1024 ** 2 }],
    changed_during_run: true,
  };
  const text = row({ tuning });
  for (const part of [
    ...["Produce", "ada@example.com", "16 MiB/s · 1 KiB records · 4 partitions · 30 s"],
    ...["4 ms", "Block cache", "128 MiB", "64 MiB", "Changed again while", "Done"],
  ]) {
    expect(text).toContain(part);
  }
  expect(text).not.toMatch(/<input[^>]*disabled/);
});

test("one without a report cannot be chosen for a comparison", () => {
  const text = row({ phase: "FAILED", report: null });
  expect(text).toMatch(/<input[^>]*disabled/);
  expect(text).toContain("Failed");
  expect(text).toContain("No changes");
});

test("two are compared: the newest choice replaces the oldest", () => {
  expect(toggled([], "a")).toEqual(["a"]);
  expect(toggled(["a", "b"], "c")).toEqual(["b", "c"]);
  expect(toggled(["a", "b"], "a")).toEqual(["b"]);
});

test("figures stand side by side, with the change and whether it is for the better", () => {
  const slower = benchmark({ id: "bmk_b", report: report(5) });
  const text = html(<FigureTable first={benchmark()} second={slower} />);
  const p99 = /data-compared="Produce p99">.*?<\/tr>/.exec(text)?.[0] ?? "";
  expect(p99).toContain("4 ms");
  expect(p99).toContain("5 ms");
  expect(p99).toContain("+25 %");
  expect(p99).toContain("worse");
  const produced = /data-compared="Produced">.*?<\/tr>/.exec(text)?.[0] ?? "";
  expect(produced).toContain("±0 %");
  expect(produced).not.toContain("better");
});

test("loads of different rate or workload are not the same load", () => {
  expect(isSameLoad(benchmark(), benchmark({ id: "bmk_b" }))).toBe(true);
  expect(isSameLoad(benchmark(), benchmark({ bytes_per_second: 1 }))).toBe(false);
  expect(isSameLoad(benchmark(), benchmark({ workload: "catch_up" }))).toBe(false);
});

test("a catch-up is told by its backlog, an end-to-end run by its own latency", () => {
  const latency = { p50: 10, p95: 20, p99: 30, p999: 40, max: 50 };
  const catchUp = {
    ...{ backlog_bytes: 1_000, seconds: 4, bytes_per_second: 2_048, complete: true },
    ...{ produce_latency_before_ms: latency, produce_latency_during_ms: latency },
  };
  const caughtUp = benchmark({
    workload: "catch_up",
    report: { ...report(4), catch_up: catchUp, end_to_end_latency_ms: latency, unsent_records: 7 },
  });
  const names = (run: typeof caughtUp) => figuresOf(run).map(({ name }) => name);
  expect(names(caughtUp)).toEqual([
    ...["Produced", "Backlog read", "Time to catch up"],
    ...["Produce p99 before", "Produce p99 during catch-up"],
  ]);
  // The age of the backlog is no latency of the broker.
  expect(mainLatency(caughtUp)).toBe(4);
  const endToEnd = benchmark({
    workload: "end_to_end",
    report: { ...report(4), end_to_end_latency_ms: latency },
  });
  expect(mainLatency(endToEnd)).toBe(30);
  expect(names(endToEnd)).toContain("End to end p99");
  expect(mainLatency(benchmark({ report: null }))).toBeUndefined();
});

test("records in flight at the end are no fault, producers that do not keep up are", () => {
  const names = (unsent_records: number) =>
    figuresOf(benchmark({ report: { ...report(4), unsent_records } })).map(({ name }) => name);
  expect(names(5)).not.toContain("Not sent in time");
  expect(names(5_000)).toContain("Not sent in time");
});

test("a load that did not reach its rate says so in the list and on its page", () => {
  const behind = benchmark({
    bytes_per_second: 64 * 1024 ** 2,
    report: { ...report(2_400), unsent_records: 82_651, kept_up: false },
  });
  const sentence = "did not keep up: the latencies include waiting in the client.";
  expect(row(behind)).toContain(sentence);
  expect(row({})).not.toContain(sentence);
  const page = html(<Behind run={behind} />);
  expect(page).toContain(sentence);
  expect(page).toContain("The load reached 16 MiB/s of 64 MiB/s.");
  expect(html(<Behind run={benchmark()} />)).not.toContain("Rate not reached");
});

test("changes are signed percentages", () => {
  expect(changeText(100, 150)).toBe("+50 %");
  expect(changeText(100, 50)).toBe("−50 %");
  expect(changeText(0, 5)).toBeUndefined();
});

test("a chart runs from the start of the load, over the longer of two", () => {
  const flow = report(4).produced;
  const samples = [1, 2].map((second) => ({
    ...{ elapsed_seconds: second, phase: "test" as const, consumed: null, lag_records: null },
    produced: second === 1 ? flow : null,
  }));
  const { points } = line("Produced", "in", samples, ({ produced }) => produced?.bytes_per_second);
  expect(points).toEqual([
    [1_000, 16 * 1024 ** 2],
    [2_000, null],
  ]);
  expect(spanOf([benchmark(), benchmark({ duration_seconds: 60 })])).toEqual({
    from: 0,
    to: 60_000,
  });
});

test("samples of two runs stand at the same seconds, without those of an instant", () => {
  const { produced } = report(4);
  const sample = (elapsed_seconds: number, bytes_per_second: number) => ({
    ...{ elapsed_seconds, phase: "test" as const, consumed: null, lag_records: null },
    produced: produced && { ...produced, bytes_per_second },
  });
  const samples = [sample(0.02, 0), sample(1.03, 5), sample(1.98, 6), sample(2.1, 99)];
  const { points } = line("Produced", "in", samples, (one) => one.produced?.bytes_per_second);
  expect(points).toEqual([
    [1_000, 5],
    [2_000, 6],
  ]);
});

test("where no benchmark can start, the page says why", () => {
  expect(refusal(localCluster())).toBeUndefined();
  expect(refusal(awsCluster())).toContain("not available for clusters on AWS");
  const paused = localCluster();
  expect(refusal({ ...paused, status: { ...paused.status, phase: "PAUSED" } })).toContain("Resume");
});

test("the form says what will be written, and that the topic goes", () => {
  const text = html(<Consequences draft={newDraft(256 * 1024 ** 2)} />);
  expect(text).toContain("Writes up to 480 MiB in 30 s to a temporary topic");
  expect(text).toContain("deleted afterwards");
  expect(html(<Consequences draft={{ ...newDraft(256 * 1024 ** 2), seconds: "" }} />)).toContain(
    "Enter a rate and a duration.",
  );
});
