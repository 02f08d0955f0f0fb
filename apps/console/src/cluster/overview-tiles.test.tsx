import { MantineProvider } from "@mantine/core";
import type { MetricSeries } from "@millrace/contract";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { pausedSince } from "./broker-state.ts";
import { Endpoints, PausedSince, Tiles } from "./cluster-overview.tsx";

function tile(series: MetricSeries[], label: string): string | undefined {
  const html = renderToStaticMarkup(
    <MantineProvider>
      <Tiles series={series} />
    </MantineProvider>,
  );
  return new RegExp(`data-tile="${label}"[^>]*>([^<]*)`).exec(html)?.[1];
}

/** Bytes and latency are measured together. */
const p99 = (points: MetricSeries["points"]): MetricSeries[] => [
  { name: "bytes_in_rate", unit: "bytes_per_second", points },
  { name: "produce_latency_p99", unit: "ms", points },
];

test("tiles show one moment: where nothing is produced, there is no latency from before", () => {
  const series: MetricSeries[] = [
    {
      ...{ name: "bytes_in_rate", unit: "bytes_per_second" },
      points: [
        [5_000, 1_000],
        [10_000, 0],
      ],
    },
    {
      ...{ name: "produce_latency_p99", unit: "ms" },
      points: [
        [5_000, 6],
        [10_000, null],
      ],
    },
  ];
  expect([tile(series, "In"), tile(series, "Produce p99")]).toEqual(["0 B/s", "–"]);
});

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

test("the tiles say since when there is no data, and nothing of it while there is some", () => {
  const html = (series: MetricSeries[] | undefined) =>
    renderToStaticMarkup(
      <MantineProvider>
        <Tiles series={series} newestAt={Date.UTC(2026, 10, 21, 12)} />
      </MantineProvider>,
    );
  expect(html(undefined)).toContain("No data since 21 Nov 2026");
  expect(html(p99([[5_000, 12]]))).not.toContain("No data since");
});

test("every endpoint is shown with how clients connect to it", () => {
  const html = renderToStaticMarkup(
    <MantineProvider>
      <Endpoints
        endpoints={[
          { name: "kafka", protocol: "PLAINTEXT", bootstrap_servers: "127.0.0.1:19092" },
          { name: "kafka-tls", protocol: "SASL_SSL", bootstrap_servers: "127.0.0.1:20092" },
        ]}
      />
    </MantineProvider>,
  );
  expect(html).toMatch(/Bootstrap servers, without TLS<.*127\.0\.0\.1:19092/);
  expect(html).toMatch(/Bootstrap servers, with TLS and password<.*127\.0\.0\.1:20092/);
});

test("the lag tile says that idle groups are not in it", () => {
  expect(tile([], "Lag of active groups")).toBe("–");
});

test("each tile states its window", () => {
  const html = renderToStaticMarkup(
    <MantineProvider>
      <Tiles series={[]} />
    </MantineProvider>,
  );
  expect(html.match(/>last 20 s</g)).toHaveLength(6);
});

test("a paused cluster says since when, and no other does", () => {
  const status = (phase: string) =>
    ({ status: { phase, conditions: [{ last_transition_at: "2026-11-23T10:00:00Z" }] } }) as never;
  expect(pausedSince(status("RUNNING"))).toBeUndefined();
  const since = pausedSince(status("PAUSED"));
  const html = renderToStaticMarkup(
    <MantineProvider>
      <PausedSince since={since ?? ""} />
    </MantineProvider>,
  );
  expect(html).toContain("Paused since 23 Nov 2026");
});
