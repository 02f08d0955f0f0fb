import { Box, SegmentedControl } from "@mantine/core";

/** Spans of live charts in minutes, up to how long metrics are kept. */
export const SPANS = {
  "5": "5 min",
  "15": "15 min",
  "60": "1 h",
  "360": "6 h",
  "1440": "24 h",
  "10080": "7 days",
  "43200": "30 days",
  "576000": "400 days",
} as const;
const DATA = Object.entries(SPANS).map(([value, label]) => ({ value, label }));

interface SpanPickerProps {
  /** The picked span; undefined while the charts show a fixed range. */
  minutes: number | undefined;
  onPick: (minutes: number) => void;
}

/** Picks what the charts show while they are live. It scrolls where the window is narrower. */
export function SpanPicker({ minutes, onPick }: SpanPickerProps) {
  return (
    <Box maw="100%" style={{ overflowX: "auto" }}>
      <SegmentedControl
        aria-label="Time range"
        size="xs"
        value={minutes === undefined ? "" : String(minutes)}
        onChange={(value) => onPick(Number(value))}
        data={DATA}
      />
    </Box>
  );
}
