import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { CacheCard } from "./cache-card.tsx";
import { cache, groupOf, network, partitionOf } from "./catch-up.fixture.ts";
import { BacklogBar, GroupCard } from "./group-card.tsx";
import { BucketCard, NetworkCard } from "./network-card.tsx";
import { PartitionTable } from "./partition-table.tsx";

function html(node: React.ReactNode): string {
  return renderToStaticMarkup(<MantineProvider>{node}</MantineProvider>);
}

function attributes(text: string): Record<string, string> {
  const bar = /<[^>]*role="progressbar"[^>]*>/.exec(text)?.[0] ?? "";
  return Object.fromEntries([...bar.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, k, v]) => [k, v]));
}

test("a group's bar says in words what it shows", () => {
  expect(attributes(html(<BacklogBar group={groupOf()} />))).toMatchObject({
    role: "progressbar",
    "aria-label": "Progress of billing",
    "aria-valuenow": "62",
    "aria-valuemin": "0",
    "aria-valuemax": "100",
    "aria-valuetext": "62 % done, 1.5 GiB · 1,234,567 records to go, about 4 min",
  });
});

test("a bar of an unknown share claims none", () => {
  const text = html(<BacklogBar group={groupOf({ progress: null })} />);
  expect(attributes(text)).not.toHaveProperty("aria-valuenow");
  expect(attributes(text)["aria-valuetext"]).toMatch(/^1\.5 GiB/);
});

test("a group's card shows backlog, rates, time left and mode as words", () => {
  const text = html(<GroupCard group={groupOf()} wanted={false} />);
  for (const part of [
    "billing",
    "Catching up",
    "about 4 min",
    "1.5 GiB",
    "1,234,567 records",
    "80 MiB/s",
    "10 MiB/s",
    "70 MiB/s",
    "1 partition",
    'aria-expanded="false"',
  ]) {
    expect(text).toContain(part);
  }
  const losing = groupOf({ mode: "falling_behind", drain_bytes_per_second: -2_097_152 });
  expect(html(<GroupCard group={losing} wanted={false} />)).toMatch(/Backlog grows<.*?>2 MiB\/s</);
});

test("a group that falls behind has its cause and what to change", () => {
  const losing = groupOf({ mode: "falling_behind", eta_seconds: null, cause: "egress_limit" });
  const text = html(<GroupCard group={losing} wanted={false} />);
  expect(text).toContain("Limited by the egress baseline");
  expect(text).toContain("Raise the egress baseline");
  expect(html(<GroupCard group={groupOf()} wanted={false} />)).not.toContain("data-cause");
});

test("many partitions are shown by the page, last to arrive first", () => {
  const partitions = Array.from({ length: 45 }, (_, partition) =>
    partitionOf({ partition, eta_seconds: partition }),
  );
  const text = html(<PartitionTable group="billing" partitions={partitions} />);
  const rows = [...text.matchAll(/orders-(\d+)/g)].map(([, partition]) => Number(partition));
  expect(rows).toEqual(Array.from({ length: 10 }, (_, at) => 44 - at));
  expect(text).toContain('aria-label="page 5"');
});

test("each figure of the cache has its sentence", () => {
  const text = html(<CacheCard cache={cache} />);
  for (const part of ["93 %", "930 of 1,000", "1.04×", "1 MiB", "8 MiB", "32 MiB", "128 MiB"]) {
    expect(text).toContain(part);
  }
  const unused = html(
    <CacheCard cache={{ ...cache, hit_ratio: null, fetched_per_delivered: null }} />,
  );
  expect(unused.match(/–/g)).toHaveLength(2);
});

test("the tiers stand in the order in which they are served, with their waits", () => {
  const text = html(<NetworkCard title="Ingress" text="In." direction={network.ingress} />);
  expect(text).toContain("Baseline: 100 MiB/s.");
  const at = ["Producers and uploads", "Tail reads", "Catch-up reads", "Prefetch", "Compaction"];
  const places = at.map((title) => text.indexOf(title));
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(places).not.toContain(-1);
  expect(text).toContain("13 s");
  const free = html(<NetworkCard title="Egress" text="Out." direction={network.egress} />);
  expect(free).toContain("Unlimited.");
});

test("a group that is up to date has no backlog that shrinks", () => {
  const done = groupOf({ backlog_records: "0", backlog_bytes: "0", drain_bytes_per_second: 1413 });
  expect(html(<GroupCard group={done} wanted={false} />)).not.toContain("Backlog shrinks");
  expect(html(<GroupCard group={groupOf()} wanted={false} />)).toContain("Backlog shrinks");
});

test("calls of object storage are listed, and their absence is said", () => {
  const calls = [{ operation: "get_range", status: "ok", calls: "1234567" }];
  expect(html(<BucketCard calls={calls} billed />)).toContain("1,234,567");
  expect(html(<BucketCard calls={calls} billed />)).toContain("billed");
  const here = html(<BucketCard calls={[]} billed={false} />);
  expect(here).toContain("None since the broker started");
  expect(here).not.toContain("billed");
});
