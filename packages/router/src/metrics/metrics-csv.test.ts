import { expect, test } from "vitest";
import { metricsCsv } from "./metrics-csv.ts";

test("a line per time, a column per series, and nothing where nothing was measured", () => {
  const csv = metricsCsv([
    {
      name: "bytes_in_rate",
      unit: "bytes_per_second",
      points: [
        [0, 1.5],
        [10_000, null],
      ],
    },
    {
      name: "connections",
      unit: "count",
      points: [
        [0, 0],
        [10_000, 3],
      ],
    },
  ]);
  expect(csv).toBe(
    "time,bytes_in_rate (bytes_per_second),connections (count)\r\n" +
      "1970-01-01T00:00:00.000Z,1.5,0\r\n1970-01-01T00:00:10.000Z,,3\r\n",
  );
});
