import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { ChartTable } from "./chart-table.tsx";

test("the table has the span's markers between the values, newest first", () => {
  const html = renderToStaticMarkup(
    <MantineProvider>
      <ChartTable
        title="Throughput"
        lines={[
          { label: "In", color: "red", points: [] },
          { label: "Out", color: "blue", points: [] },
        ]}
        columns={[
          [10, 20],
          [1, 3],
          [2, null],
        ]}
        markers={[
          { at: 5_000, text: "Creating the cluster" },
          { at: 15_000, text: "Tuning #1\nBlock cache: 16 MiB → 64 MiB" },
        ]}
        span={{ from: 10_000, to: 20_000 }}
        format={(value) => `${value} B/s`}
        momentText={(seconds) => `${seconds} s`}
        height={190}
      />
    </MantineProvider>,
  );
  const rows = html.split("<tr").slice(2);
  const texts = rows.map((row) => row.match(/(?<=>)[^<>]+(?=<\/td>)/g));
  expect(texts).toEqual([
    ["20 s", "3 B/s", "–"],
    ["15 s", "Tuning #1\nBlock cache: 16 MiB → 64 MiB"],
    ["10 s", "1 B/s", "2 B/s"],
  ]);
  expect(rows[1]).toContain('colSpan="2"');
});
