import { readFileSync } from "node:fs";
import { METRIC_NAMES } from "@millrace/domain";
import { describe, expect, it } from "vitest";
import { metricColor } from "./metric-colors.ts";

const css = readFileSync(new URL("../app/globals.css", import.meta.url), "utf8");
/** WCAG 2.2, 1.4.11: what tells lines apart from the ground. */
const CONTRAST_MIN = 3;

function property(scheme: string, name: string): string {
  const block = css.split(`[data-mantine-color-scheme="${scheme}"] {`)[1]?.split("}")[0] ?? "";
  const value = new RegExp(`${name}: (#[0-9a-f]{6});`).exec(block)?.[1];
  if (value === undefined) throw new Error(`globals.css has no ${name} for ${scheme}`);
  return value;
}

function luminance(color: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

describe.each(["light", "dark"])("in %s", (scheme) => {
  it.each(METRIC_NAMES)("%s stands out from the card", (name) => {
    const variable = metricColor(name).slice("var(".length, -1);
    const ratio = contrast(property(scheme, variable), property(scheme, "--surface-card"));
    expect(ratio).toBeGreaterThanOrEqual(CONTRAST_MIN);
  });
});

it("lines of one chart have colours of their own", () => {
  for (const [a, b] of [
    ["bytes_in_rate", "bytes_out_rate"],
    ["produce_latency_p50", "produce_latency_p99"],
    ["catch_up_read_rate", "bytes_in_rate"],
  ] as const) {
    expect(metricColor(a)).not.toBe(metricColor(b));
  }
});

it("tiers have colours of their own", () => {
  const tiers = METRIC_NAMES.filter((name) => name.startsWith("network_rate_"));
  expect(new Set(tiers.map(metricColor)).size).toBe(5);
});
