import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { ChangePreview } from "./change-preview.tsx";
import { changePreview, plannedChange } from "./plan.fixture.ts";
import { PlanView } from "./plan-view.tsx";

function html(node: React.ReactNode): string {
  return renderToStaticMarkup(<MantineProvider>{node}</MantineProvider>);
}

function figure(text: string, label: string): string | undefined {
  return new RegExp(`data-figure="${label}"[^>]*>([^<]*)`).exec(text)?.[1];
}

test("a preview says what changes, what it costs, and that it is an estimate", () => {
  const text = html(<ChangePreview preview={changePreview()} />);
  expect(figure(text, "Plan")).toBe("1 to change");
  expect(figure(text, "A month, estimated")).toBe("$123.40 (+$5.00)");
  expect(figure(text, "Policy")).toBe("every rule passes");
  for (const part of ["aws_ebs_volume.wal_0", "throughput", "125", "250", "2026-06-17"]) {
    expect(text).toContain(part);
  }
  expect(text).not.toContain("Data is lost");
});

test("a broken rule stands out from a remark", () => {
  const finding = { rule: "imdsv2", address: "aws_launch_template.slot_0", message: "Needs it." };
  const broken = html(
    <ChangePreview preview={changePreview({ policy: [{ ...finding, severity: "error" }] })} />,
  );
  expect(figure(broken, "Policy")).toBe("1 rule is broken");
  expect(broken).toContain("The plan breaks rules and is not applied");
  expect(broken).toContain('data-finding="imdsv2"');
  const remark = html(
    <ChangePreview preview={changePreview({ policy: [{ ...finding, severity: "warning" }] })} />,
  );
  expect(figure(remark, "Policy")).toBe("passes, 1 remark");
  expect(remark).not.toContain("is not applied");
});

test("a plan that takes a volume away says that data is lost", () => {
  const plan = { ...changePreview().plan, changes: [plannedChange({ action: "delete" })] };
  expect(html(<ChangePreview preview={changePreview({ plan })} />)).toContain("Data is lost");
});

test("warnings are told, and what is not known of the cost is not made up", () => {
  const text = html(
    <ChangePreview
      preview={changePreview({ warnings: ["Clients reconnect."], cost: null, cost_delta: null })}
    />,
  );
  expect(text).toContain("Clients reconnect.");
  expect(figure(text, "A month, estimated")).toBe("not known");
  const free = changePreview({ cost_delta: 0 });
  const cost = free.cost && { ...free.cost, total: 0, lines: [] };
  const here = html(<ChangePreview preview={{ ...free, cost }} />);
  expect(figure(here, "A month, estimated")).toBe("nothing");
  expect(here).not.toContain("What it costs");
});

test("an empty plan says that everything is as asked for", () => {
  expect(html(<PlanView changes={[]} />)).toContain("Everything is as it is asked for");
});

test("what there was and is not any more reads as none", () => {
  const attributes = [{ name: "alias", before: "orders", after: null }];
  const text = html(<PlanView changes={[plannedChange({ attributes })]} />);
  expect(text).toMatch(/orders.*becomes.*none/);
});
