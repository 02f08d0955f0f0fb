import fc from "fast-check";
import { expect, test } from "vitest";
import { MalformedMetrics, type MetricSample, parsePrometheusText } from "./prometheus-text.ts";

test("reads names, labels, values, timestamps; skips comments and empty lines", () => {
  const text = [
    "# HELP a_total what it is",
    "# TYPE a_total counter",
    'a_total{topic="orders",note="say \\"hi\\" \\\\ \\n end"} 12 1700000000000',
    "",
    "b 1.5e3",
    'c_bucket{le="+Inf",} +Inf',
    "d{} NaN",
  ].join("\r\n");
  expect(parsePrometheusText(text)).toEqual([
    { name: "a_total", labels: { topic: "orders", note: 'say "hi" \\ \n end' }, value: 12 },
    { name: "b", labels: {}, value: 1_500 },
    { name: "c_bucket", labels: { le: "+Inf" }, value: Number.POSITIVE_INFINITY },
    { name: "d", labels: {}, value: Number.NaN },
  ]);
});

test("parses only the lines that pass the filter", () => {
  const text = 'a_total{api="x"} 1\na_total{api="y"} 2\nb{not well formed\nc 3';
  const samples = parsePrometheusText(
    text,
    (name, line) => name === "c" || line.includes('api="y"'),
  );
  expect(samples).toEqual([
    { name: "a_total", labels: { api: "y" }, value: 2 },
    { name: "c", labels: {}, value: 3 },
  ]);
});

for (const [what, text] of [
  ["no value", "a"],
  ["a word as value", "a many"],
  ["an empty value", "a{}"],
  ["labels that do not close", 'a{b="c" 1'],
  ["labels without a comma", 'a{b="c"d="e"} 1'],
  ["a label without quotes", "a{b=c} 1"],
  ["something after the timestamp", "a 1 2 3"],
  ["a timestamp that is none", "a 1 soon"],
  ["no name", "{} 1"],
] as const) {
  test(`refuses ${what}, naming the line`, () => {
    expect(() => parsePrometheusText(`ok 1\n${text}`)).toThrow(/^line 2 of the metrics text/);
  });
}

const sample: fc.Arbitrary<MetricSample> = fc.record({
  name: fc.stringMatching(/^[a-z_][a-z0-9_]{0,20}$/),
  labels: fc.dictionary(fc.stringMatching(/^[a-z_][a-z0-9_]{0,10}$/), fc.string(), { maxKeys: 4 }),
  value: fc.double({ noNaN: true }),
});

function render({ name, labels, value }: MetricSample): string {
  const escaped = (text: string) =>
    text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escaped(text)}"`);
  const shown = Number.isFinite(value) ? String(value) : value > 0 ? "+Inf" : "-Inf";
  return `${name}{${pairs.join(",")}} ${shown}`;
}

test("reads back whatever was written", () => {
  fc.assert(
    fc.property(fc.array(sample), (samples) => {
      const read = parsePrometheusText(samples.map(render).join("\n"));
      expect(read.map((each) => ({ ...each, labels: { ...each.labels } }))).toEqual(
        samples.map((each) => ({ ...each, labels: { ...each.labels }, value: each.value + 0 })),
      );
    }),
  );
});

test("any text gives samples or MalformedMetrics", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
      try {
        parsePrometheusText(text);
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedMetrics);
      }
    }),
  );
});
