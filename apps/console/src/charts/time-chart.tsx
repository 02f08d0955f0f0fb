"use client";

import { Box, Card, Group, Text, useComputedColorScheme } from "@mantine/core";
import { useLocalStorage, useMergedRef, useResizeObserver } from "@mantine/hooks";
import { useEffect, useMemo, useRef, useState } from "react";
import type uPlot from "uplot";
import { duration } from "../format/time.ts";
import { type ChartLine, type Columns, columnsOf, latest, summaryOf } from "./chart-data.ts";
import type { ChartMarker } from "./chart-markers.ts";
import type { Range } from "./chart-range.ts";
import { ChartTable, clockMoment } from "./chart-table.tsx";
import { ChartToggles } from "./chart-toggles.tsx";
import { optionsOf } from "./uplot-options.ts";

interface TimeChartProps {
  title: string;
  /** How to read the values, where the title does not say it. */
  note?: string | undefined;
  lines: ChartLine[];
  format: (value: number) => string;
  /** The shown span, in milliseconds since the epoch: it moves even while nothing is measured. */
  span: Range;
  /** Moments are times since the start of something, not of the day. */
  elapsed?: boolean;
  markers?: readonly ChartMarker[];
  /** Dragging zooms in, a double click back out. */
  onZoom?: (range: Range | undefined) => void;
}

const HEIGHT = 190;
const NO_MARKERS: readonly ChartMarker[] = [];

/** A live time series on a canvas, with a summary for screen readers, and as a table. */
export function TimeChart(props: TimeChartProps) {
  const { title, note, lines, format, span, elapsed = false, markers = NO_MARKERS, onZoom } = props;
  const scheme = useComputedColorScheme("light");
  const [observe, { width }] = useResizeObserver<HTMLDivElement>();
  const host = useRef<HTMLDivElement>(null);
  const frame = useMergedRef(observe, host);
  const chart = useRef<uPlot>(null);
  const [row, setRow] = useState<number>();
  const [asTable, setAsTable] = useState(false);
  const [log, setLog] = useLocalStorage({ key: `chart-log ${title}`, defaultValue: false });
  // A moving cursor renders the chart's frame again, and must not redraw it.
  const columns = useMemo(() => columnsOf(lines), [lines]);
  const newest = useRef({ columns, span, markers, onZoom });
  newest.current = { columns, span, markers, onZoom };
  const labels = lines.map((line) => line.label).join("\n");

  // biome-ignore lint/correctness/useExhaustiveDependencies: lines and format change by identity on every render; their labels and the scheme are what the drawing depends on
  useEffect(() => {
    const element = host.current;
    if (!element || width === 0) return;
    let gone = false;
    void import("uplot").then(({ default: UPlot }) => {
      if (gone) return;
      const options = optionsOf({
        ...{ lines, format, width, elapsed, log, height: HEIGHT, host: element },
        markers: () => newest.current.markers,
        onCursor: setRow,
        onZoom: onZoom && ((range) => newest.current.onZoom?.(range)),
      });
      chart.current = new UPlot(options, newest.current.columns as uPlot.AlignedData, element);
      show(chart.current, newest.current.columns, newest.current.span);
    });
    return () => {
      gone = true;
      chart.current?.destroy();
      chart.current = null;
    };
  }, [labels, scheme, width, log, asTable]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: new markers are drawn with the data
  useEffect(() => {
    if (chart.current) show(chart.current, columns, { from: span.from, to: span.to });
  }, [columns, span.from, span.to, markers]);

  const momentText = elapsed ? duration : clockMoment;
  const at = row === undefined ? undefined : columns[0][row];
  return (
    <Card component="section" aria-label={title} padding="md">
      <Group justify="space-between" gap="xs" wrap="nowrap">
        <Text fw={600} fz="sm">
          {title}
        </Text>
        <ChartToggles
          {...{ title, log, asTable }}
          onLog={() => setLog(!log)}
          onTable={() => setAsTable(!asTable)}
        />
      </Group>
      {note && (
        <Text fz="xs" className="quiet">
          {note}
        </Text>
      )}
      <Group gap="md" mb={6}>
        {lines.map((line, index) => (
          <Legend
            key={line.label}
            line={line}
            format={format}
            value={at === undefined ? latest(line.points) : columns[index + 1]?.[row as number]}
          />
        ))}
        <Text fz="xs" className="quiet number" data-cursor>
          {at !== undefined && momentText(at)}
        </Text>
      </Group>
      {asTable ? (
        <ChartTable {...props} {...{ markers, columns, momentText }} height={HEIGHT} />
      ) : (
        <Box
          ref={frame}
          h={HEIGHT}
          role="img"
          aria-label={`${title}. ${summaryOf(lines, format)}`}
        />
      )}
    </Card>
  );
}

/** The value at the cursor; the current one while the cursor is elsewhere. */
function Legend(props: {
  line: ChartLine;
  format: (value: number) => string;
  value: number | null | undefined;
}) {
  const { line, format, value } = props;
  return (
    <Group gap={6} wrap="nowrap" data-line={line.label}>
      <Box w={10} h={3} bg={line.color} style={{ borderRadius: 2 }} />
      <Text fz="xs" className="quiet">
        {line.label}
      </Text>
      <Text fz="xs" fw={600} className="number">
        {value == null ? "–" : format(value)}
      </Text>
    </Group>
  );
}

function show(chart: uPlot, columns: Columns, span: Range): void {
  chart.setData(columns as uPlot.AlignedData, false);
  chart.setScale("x", { min: span.from / 1_000, max: span.to / 1_000 });
}
