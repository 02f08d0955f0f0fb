/** How uPlot draws a chart: scales, axes, zoom and markers. */
import type uPlot from "uplot";
import { byteRate } from "../format/quantity.ts";
import { duration } from "../format/time.ts";
import type { ChartLine } from "./chart-data.ts";
import type { ChartMarker } from "./chart-markers.ts";
import type { Range } from "./chart-range.ts";

export interface ChartDrawing {
  lines: readonly ChartLine[];
  format: (value: number) => string;
  width: number;
  height: number;
  host: HTMLElement;
  elapsed: boolean;
  log: boolean;
  /** The markers of now. */
  markers: () => readonly ChartMarker[];
  /** The row at the cursor. */
  onCursor: (row: number | undefined) => void;
  /** Zooms in, or back out. Without one, dragging selects nothing. */
  onZoom: ((range: Range | undefined) => void) | undefined;
}

/** Room for the widest label that the formatters make. */
const AXIS_WIDTH = 72;
/** The top of the scale while nothing happens. */
const SMALLEST_TOP = 1;
/** A shorter drag is a click. */
const DRAG_PX_MIN = 6;
/** uPlot's number of the asinh scale: logarithmic from 1 on, linear below, so that it has a place for zero. */
const ASINH = 4;
/** Steps between labels that are round in KiB, MiB and GiB. */
const BINARY_STEPS = [0, 1, 2, 3].flatMap((power) =>
  [1, 2, 5, 10, 20, 50, 100, 200, 500].map((step) => step * 1024 ** power),
);
const DAY_SECONDS = 86_400;
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockWithSeconds = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const dayOfMonth = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });
/** From this distance on, labels may be of two years. */
const YEAR_LABELS_SECONDS = 20 * DAY_SECONDS;
const CLOCK_LABELS: uPlot.Axis.Values = (_chart, splits, _axis, _space, step) =>
  timeLabels(splits, step);
const SECONDS_LABELS: uPlot.Axis.Values = (_chart, splits) => splits.map((at) => duration(at));

export function optionsOf(drawing: ChartDrawing): uPlot.Options {
  const { lines, format, width, height, host, elapsed, log, onZoom, onCursor } = drawing;
  // The canvas takes no custom properties: a probe resolves them for the current scheme.
  const resolve = (color: string) => {
    const probe = document.createElement("i");
    probe.style.color = color;
    host.append(probe);
    const resolved = getComputedStyle(probe).color;
    probe.remove();
    return resolved;
  };
  const unzoom = () => {
    onZoom?.(undefined);
    return null;
  };
  const axis = {
    stroke: resolve("var(--text-quiet)"),
    grid: { stroke: resolve("var(--chart-grid)"), width: 1 },
    ticks: { show: false },
    font: `11px ${getComputedStyle(host).fontFamily}`,
  };
  return {
    width,
    height,
    legend: { show: false },
    cursor: {
      sync: { key: elapsed ? "elapsed" : "cluster" },
      y: false,
      drag: { x: onZoom !== undefined, y: false, setScale: false },
      bind: { dblclick: () => unzoom, mousedown: pressed },
    },
    hooks: {
      setCursor: [(chart) => onCursor(chart.cursor.idx ?? undefined)],
      setSelect: [(chart) => zoom(chart, onZoom)],
      draw: [(chart) => mark(chart, drawing.markers())],
    },
    scales: {
      // Round labels need a scale that ends on one: the highest value and some air above it.
      y: {
        range: (_chart, _min, max) => [0, Math.max(max ?? 0, SMALLEST_TOP) * 1.1],
        ...(log && { distr: ASINH, asinh: 1 }),
      },
    },
    axes: [
      { ...axis, size: 30, space: 70, values: elapsed ? SECONDS_LABELS : CLOCK_LABELS },
      {
        ...axis,
        size: AXIS_WIDTH,
        ...(format === byteRate && !log ? { incrs: BINARY_STEPS } : {}),
        ...(log && {
          splits: (_chart, _axis, _min, max) => logSplits(max, format === byteRate ? 32 : 10),
          filter: (_chart, splits) => splits,
        }),
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
      })),
    ],
  };
}

/** Moments in seconds, `step` seconds apart, as labels: the time of day, and the day where it begins. */
export function timeLabels(splits: readonly number[], step: number): string[] {
  return splits.map((seconds) => {
    const at = new Date(seconds * 1_000);
    if (step >= YEAR_LABELS_SECONDS) return dayOfYear.format(at);
    const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
    if (step >= DAY_SECONDS || (isMidnight && step >= 3_600)) return dayOfMonth.format(at);
    return (step < 60 ? clockWithSeconds : clock).format(at);
  });
}

/** Zero and powers of the base up to the top: every one, or every second or third where there are many. */
export function logSplits(max: number, base: number): number[] {
  const powers = Math.floor(Math.log(Math.max(1, max)) / Math.log(base) + 1e-9);
  const stride = Math.max(1, Math.ceil(powers / 4));
  // One stands too close to zero where larger powers are shown.
  const splits = powers === 0 ? [0, 1] : [0];
  for (let power = stride; power <= powers; power += stride) splits.push(base ** power);
  return splits;
}

/** uPlot's own filter takes no press on an element over the chart, so that no drag could begin on a marker. */
const pressed: uPlot.Cursor.MouseListenerFactory = (_chart, _target, handle) => (event) => {
  if (event.button === 0) handle(event);
  return null;
};

function zoom(chart: uPlot, onZoom: ChartDrawing["onZoom"]): void {
  const { left, width } = chart.select;
  if (onZoom === undefined || width < DRAG_PX_MIN) return;
  const at = (px: number) => Math.round(chart.posToVal(px, "x") * 1_000);
  onZoom({ from: at(left), to: at(left + width) });
  chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
}

/** The markers within the shown span as elements over the chart, whose style sheet shows their text on hover. */
function mark(chart: uPlot, markers: readonly ChartMarker[]): void {
  const { min = 0, max = 0 } = chart.scales.x ?? {};
  const width = chart.over.clientWidth;
  const time = (max ?? 0) - (min ?? 0) > DAY_SECONDS ? dayAndTime : clockWithSeconds;
  const elements = markers
    .filter(({ at }) => at / 1_000 >= (min ?? 0) && at / 1_000 <= (max ?? 0))
    .map(({ at, text }) => {
      const left = chart.valToPos(at / 1_000, "x");
      const element = document.createElement("div");
      element.className = "chart-marker";
      element.style.left = `${left}px`;
      element.dataset.text = `${time.format(at)}  ${text}`;
      if (left > width / 2) element.dataset.flip = "";
      return element;
    });
  // A marker that is hovered over keeps its text while the chart moves on.
  const shown = chart.over.querySelectorAll(".chart-marker");
  for (const [index, element] of elements.entries()) {
    const old = shown[index];
    if (old instanceof HTMLElement && old.dataset.text === element.dataset.text) {
      old.style.left = element.style.left;
      old.toggleAttribute("data-flip", "flip" in element.dataset);
    } else if (old) old.replaceWith(element);
    else chart.over.append(element);
  }
  for (const old of [...shown].slice(elements.length)) old.remove();
}
