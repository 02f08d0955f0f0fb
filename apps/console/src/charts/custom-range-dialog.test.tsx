import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test, vi } from "vitest";
import { CustomRangeForm } from "./custom-range-dialog.tsx";

vi.mock("next/navigation", () => ({}));

test("the form begins with the shown range, and its fields have labels", () => {
  const shown = {
    from: new Date(2026, 2, 1, 4, 5, 6).getTime(),
    to: new Date(2026, 2, 2).getTime(),
  };
  const html = renderToStaticMarkup(
    <MantineProvider>
      <CustomRangeForm shown={shown} onApply={() => undefined} onCancel={() => undefined} />
    </MantineProvider>,
  );
  const valueIn = (label: string) => {
    const id = new RegExp(`for="([^"]+)"[^>]*>${label}<`).exec(html)?.[1];
    const input = html.match(/<input[^>]*>/g)?.find((each) => each.includes(`id="${id}"`));
    expect(input).toContain('type="datetime-local"');
    return /value="([^"]*)"/.exec(input ?? "")?.[1];
  };
  expect(valueIn("From")).toBe("2026-03-01T04:05:06");
  expect(valueIn("To")).toBe("2026-03-02T00:00:00");
});
