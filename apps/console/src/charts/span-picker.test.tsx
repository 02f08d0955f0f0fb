import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { RANGE_MS_MAX, stepOf } from "./chart-range.ts";
import { SPANS, SpanPicker } from "./span-picker.tsx";

const picker = (minutes: number | undefined) =>
  renderToStaticMarkup(
    <MantineProvider>
      <SpanPicker minutes={minutes} onPick={() => undefined} />
    </MantineProvider>,
  );

test("spans go up to how long metrics are kept", () => {
  const minutes = Object.keys(SPANS).map(Number);
  expect(Math.max(...minutes) * 60_000).toBe(RANGE_MS_MAX);
  // The API takes steps of six digits.
  expect(stepOf({ from: 0, to: RANGE_MS_MAX })).toBeLessThan(1_000_000);
});

test("the picked span is checked, and none while the charts show a fixed range", () => {
  const html = picker(10_080);
  expect(html).toMatch(
    /role="radiogroup"[^>]*aria-label="Time range"|aria-label="Time range"[^>]*role="radiogroup"/,
  );
  expect(html.match(/checked=""/g)).toHaveLength(1);
  expect(html).toMatch(
    /<input[^>]*checked=""[^>]*value="10080"|<input[^>]*value="10080"[^>]*checked=""/,
  );
  expect(picker(undefined)).not.toContain('checked=""');
});
