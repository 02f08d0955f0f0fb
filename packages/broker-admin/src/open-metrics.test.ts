import { expect, test } from "vitest";
import { openMetricsText, parseFamilies } from "./open-metrics.ts";

const TEXT = `# HELP millrace_topic_bytes_in_total Bytes.
# TYPE millrace_topic_bytes_in_total counter
millrace_topic_bytes_in_total{topic="a\\"b"} 10
millrace_topic_bytes_in_total{topic="c"} NaN
# TYPE millrace_connections gauge
millrace_connections{listener="x"} 2
# TYPE millrace_request_seconds histogram
millrace_request_seconds_bucket{le="0.0005"} 1
millrace_request_seconds_bucket{le="1"} 2
millrace_request_seconds_bucket{le="2048000"} 3
millrace_request_seconds_bucket{le="+Inf"} 3
millrace_request_seconds_sum 0.5
millrace_request_seconds_count 3
# TYPE odd counter
odd 1
untyped_count 4
`;

test("families keep their types; counters lose their suffix, and what no reader would take is counted", () => {
  const families = parseFamilies(TEXT);
  expect(families.map(({ name, type }) => [name, type])).toEqual([
    ["millrace_topic_bytes_in_total", "counter"],
    ["millrace_connections", "gauge"],
    ["millrace_request_seconds", "histogram"],
    ["odd", "counter"],
    ["untyped_count", "unknown"],
  ]);
  expect(openMetricsText([{ brokerId: 3, families }])).toBe(`# TYPE millrace_topic_bytes_in counter
# HELP millrace_topic_bytes_in Bytes.
millrace_topic_bytes_in_total{topic="a\\"b",broker="3"} 10
# TYPE millrace_connections gauge
millrace_connections{listener="x",broker="3"} 2
# TYPE millrace_request_seconds histogram
millrace_request_seconds_bucket{le="0.0005",broker="3"} 1
millrace_request_seconds_bucket{le="1.0",broker="3"} 2
millrace_request_seconds_bucket{le="2.048e+06",broker="3"} 3
millrace_request_seconds_bucket{le="+Inf",broker="3"} 3
millrace_request_seconds_sum{broker="3"} 0.5
millrace_request_seconds_count{broker="3"} 3
# TYPE odd unknown
odd{broker="3"} 1
# TYPE untyped_count unknown
untyped_count{broker="3"} 4
# TYPE millrace_prometheus_samples_left_out gauge
millrace_prometheus_samples_left_out 1
# EOF
`);
});

test("brokers share a family's lines, and two families never share a name", () => {
  const text = (value: number) => `# TYPE x_total counter\nx_total ${value}\n# TYPE x gauge\nx 1\n`;
  const brokers = [0, 1].map((brokerId) => ({ brokerId, families: parseFamilies(text(brokerId)) }));
  expect(openMetricsText(brokers).split("\n")).toEqual([
    ...["# TYPE x counter", 'x_total{broker="0"} 0', 'x_total{broker="1"} 1'],
    "# TYPE millrace_prometheus_samples_left_out gauge",
    "millrace_prometheus_samples_left_out 2",
    ...["# EOF", ""],
  ]);
});
