import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { ChartToggles } from "./chart-toggles.tsx";

function button(label: string, asTable: boolean): string | undefined {
  const html = renderToStaticMarkup(
    <MantineProvider>
      <ChartToggles
        title="Throughput"
        log
        asTable={asTable}
        onLog={() => undefined}
        onTable={() => undefined}
      />
    </MantineProvider>,
  );
  return new RegExp(`<button[^>]*aria-label="${label}"[^>]*>`).exec(html)?.[0];
}

test("the log scale cannot be switched while the chart is a table, and keeps its state", () => {
  const scale = "Log scale of Throughput";
  expect(button(scale, false)).not.toContain("disabled");
  expect(button(scale, true)).toContain("disabled");
  expect(button(scale, true)).toContain('aria-pressed="true"');
  expect(button("Throughput as a table", true)).not.toContain("disabled");
});
