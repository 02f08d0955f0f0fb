import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { NewValue, SettingValue } from "./topic-settings.tsx";

function html(node: React.ReactNode): string {
  return renderToStaticMarkup(<MantineProvider>{node}</MantineProvider>);
}

test("the cleanup policy is chosen, with a warning of compaction", () => {
  const compact = html(<NewValue name="cleanup.policy" value="compact" onChange={() => {}} />);
  expect(compact).toContain("<select");
  expect(compact).toContain("last record of each key");
  const other = html(<NewValue name="cleanup.policy" value="delete,compact" onChange={() => {}} />);
  expect(other).toMatch(/<option[^>]*value="delete,compact"/);
  expect(html(<NewValue name="retention.ms" value="1" onChange={() => {}} />)).toContain("<input");
});

test("a duration stands beside its milliseconds", () => {
  const text = html(<SettingValue name="retention.ms" value="604800000" />);
  expect(text).toContain("604800000");
  expect(text).toContain("7 days");
});
