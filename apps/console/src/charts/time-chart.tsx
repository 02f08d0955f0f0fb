"use client";

import { Box, Card, Group, Text, useComputedColorScheme } from "@mantine/core";
import { useMergedRef, useResizeObserver } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import type uPlot from "uplot";
import { byteRate } from "../format/quantity.ts";
import { duration } from "../format/time.ts";
import { type ChartLine, type Columns, columnsOf, latest, summaryOf } from "./chart-data.ts";

interface TimeChartProps {
  title: string;
  lines: ChartLine[];
  format: (value: number) => string;
  /** The shown span, in milliseconds since the epoch: it moves even while nothing is measured. */
  span: { from: number; to: number };
  /** Moments are times since the start of something, not of the day. */
  elapsed?: boolean;
}

const HEIGHT = 190;
/** Room for the widest label that the formatters make. */
const AXIS_WIDTH = 72;
/** The top of the scale while nothing happens. */
const SMALLEST_TOP = 1;
/** Steps between labels that are round in KiB, MiB and GiB. */
const BINARY_STEPS = [0, 1, 2, 3].flatMap((power) =>
  [1, 2, 5, 10, 20, 50, 100, 200, 500].map((step) => step * 1024 ** power),
);
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockWithSeconds = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const CLOCK_LABELS: uPlot.Axis.Values = (_chart, splits, _axis, _space, step) =>
  splits.map((at) => (step < 60 ? clockWithSeconds : clock).format(at * 1_000));

const SECONDS_LABELS: uPlot.Axis.Values = (_chart, splits) => splits.map((at) => duration(at));

/** A live time series on a canvas, with a summary for screen readers. */
export function TimeChart({ title, lines, format, span, elapsed }: TimeChartProps) {
  const scheme = useComputedColorScheme("light");
  const [observe, { width }] = useResizeObserver<HTMLDivElement>();
  const host = useRef<HTMLDivElement>(null);
  const frame = useMergedRef(observe, host);
  const chart = useRef<uPlot>(null);
  const columns = columnsOf(lines);
  const newest = useRef({ columns, span });
  newest.current = { columns, span };
  const labels = lines.map((line) => line.label).join("\n");

  // biome-ignore lint/correctness/useExhaustiveDependencies: lines and format change by identity on every render; their labels and the scheme are what the drawing depends on
  useEffect(() => {
    const element = host.current;
    if (!element || width === 0) return;
    let gone = false;
    void import("uplot").then(({ default: UPlot }) => {
      if (gone) return;
      const options = optionsOf(lines, format, width, element, elapsed);
      chart.current = new UPlot(options, newest.current.columns as uPlot.AlignedData, element);
      show(chart.current, newest.current.columns, newest.current.span);
    });
    return () => {
      gone = true;
      chart.current?.destroy();
      chart.current = null;
    };
  }, [labels, scheme, width]);

  useEffect(() => {
    if (chart.current) show(chart.current, columns, span);
  });

  return (
    <Card component="section" aria-label={title} padding="md">
      <Group justify="space-between" mb={6} gap="xs">
        <Text fw={600} fz="sm">
          {title}
        </Text>
        <Group gap="md" wrap="nowrap">
          {lines.map((line) => (
            <Legend key={line.label} line={line} format={format} />
          ))}
        </Group>
      </Group>
      <Box ref={frame} h={HEIGHT} role="img" aria-label={`${title}. ${summaryOf(lines, format)}`} />
    </Card>
  );
}

function Legend({ line, format }: { line: ChartLine; format: (value: number) => string }) {
  const now = latest(line.points);
  return (
    <Group gap={6} wrap="nowrap">
      <Box w={10} h={3} bg={line.color} style={{ borderRadius: 2 }} />
      <Text fz="xs" className="quiet">
        {line.label}
      </Text>
      <Text fz="xs" fw={600} className="number">
        {now === undefined ? "–" : format(now)}
      </Text>
    </Group>
  );
}

function show(chart: uPlot, columns: Columns, span: { from: number; to: number }): void {
  chart.setData(columns as uPlot.AlignedData, false);
  chart.setScale("x", { min: span.from / 1_000, max: span.to / 1_000 });
}

function optionsOf(
  lines: ChartLine[],
  format: (value: number) => string,
  width: number,
  host: HTMLElement,
  elapsed = false,
): uPlot.Options {
  const style = getComputedStyle(host);
  // The canvas takes no custom properties: a probe resolves them for the current scheme.
  const resolve = (color: string) => {
    const probe = document.createElement("i");
    probe.style.color = color;
    host.append(probe);
    const resolved = getComputedStyle(probe).color;
    probe.remove();
    return resolved;
  };
  const axis = {
    stroke: resolve("var(--text-quiet)"),
    grid: { stroke: resolve("var(--chart-grid)"), width: 1 },
    ticks: { show: false },
    font: `11px ${style.fontFamily}`,
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { sync: { key: elapsed ? "elapsed" : "cluster" }, y: false },
    // Round labels need a scale that ends on one: the highest value and some air above it.
    scales: { y: { range: (_chart, _min, max) => [0, Math.max(max ?? 0, SMALLEST_TOP) * 1.1] } },
    axes: [
      { ...axis, size: 30, space: 70, values: elapsed ? SECONDS_LABELS : CLOCK_LABELS },
      {
        ...axis,
        size: AXIS_WIDTH,
        ...(format === byteRate ? { incrs: BINARY_STEPS } : {}),
        values: (_chart, splits) => splits.map(format),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: resolve(line.color),
        width: 1.75,
        points: { size: 4 },
        value: (_chart: uPlot, value: number | null) => (value === null ? "–" : format(value)),
      })),
    ],
  };
}
