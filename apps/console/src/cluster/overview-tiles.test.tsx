import { MantineProvider } from "@mantine/core";
import type { MetricSeries } from "@millrace/contract";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Tiles } from "./cluster-overview.tsx";

function tile(series: MetricSeries[], label: string): string | undefined {
  const html = renderToStaticMarkup(
    <MantineProvider>
      <Tiles series={series} />
    </MantineProvider>,
  );
  return new RegExp(`data-tile="${label}"[^>]*>([^<]*)`).exec(html)?.[1];
}

const p99 = (points: MetricSeries["points"]): MetricSeries[] => [
  { name: "produce_latency_p99", unit: "ms", points },
];

test("a tile drops its last value when nothing is measured any more", () => {
  const before = p99([
    [5_000, 12],
    [10_000, 12],
  ]);
  expect(tile(before, "Produce p99")).toBe("12 ms");
  const paused = p99([
    [5_000, 12],
    [30_000, null],
  ]);
  expect(tile(paused, "Produce p99")).toBe("–");
});

test("the lag tile says that idle groups are not in it", () => {
  expect(tile([], "Lag of active groups")).toBe("–");
});
