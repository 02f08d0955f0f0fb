import { MantineProvider } from "@mantine/core";
import { queryMetrics } from "@millrace/contract";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { CsvLink, csvPath } from "./csv-link.tsx";

const range = { from: 1_000_000, to: 1_000_000 + 3_600_000 };

test("the download has the charts' range and step, as the API takes them", () => {
  const url = new URL(csvPath("clu_a", range), "http://console");
  expect(url.pathname).toBe("/v1/clusters/clu_a/metrics/export");
  const query = Object.fromEntries(url.searchParams);
  expect(query).toEqual({ from: "1000000", to: "4600000", step: "16s" });
  const { from, to, step } = queryMetrics.query;
  expect([from.parse(query.from), to.parse(query.to), step.parse(query.step)]).toHaveLength(3);
});

test("the link saves a file named after the cluster", () => {
  const html = renderToStaticMarkup(
    <MantineProvider>
      <CsvLink clusterId="clu_a" range={range} />
    </MantineProvider>,
  );
  expect(html).toContain('download="clu_a-metrics.csv"');
});
