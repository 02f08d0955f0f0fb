import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { ChangePreview, changesNothing } from "./change-preview.tsx";
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
  expect(figure(text, "Estimated monthly cost")).toBe("$123.40 (+$5.00)");
  expect(figure(text, "Policy")).toBe("All checks passed");
  for (const part of ["aws_ebs_volume.wal_0", "throughput", "125", "250", "2026-06-17"]) {
    expect(text).toContain(part);
  }
  expect(text).not.toContain("Data will be lost");
});

test("a broken rule stands out from a remark", () => {
  const finding = { rule: "imdsv2", address: "aws_launch_template.slot_0", message: "Needs it." };
  const broken = html(
    <ChangePreview preview={changePreview({ policy: [{ ...finding, severity: "error" }] })} />,
  );
  expect(figure(broken, "Policy")).toBe("1 check failed");
  expect(broken).toContain("this plan cannot be applied");
  expect(broken).toContain('data-finding="imdsv2"');
  const remark = html(
    <ChangePreview preview={changePreview({ policy: [{ ...finding, severity: "warning" }] })} />,
  );
  expect(figure(remark, "Policy")).toBe("Passed, 1 warning");
  expect(remark).not.toContain("cannot be applied");
});

test("a plan that takes a volume away says that data is lost", () => {
  const plan = { ...changePreview().plan, changes: [plannedChange({ action: "delete" })] };
  expect(html(<ChangePreview preview={changePreview({ plan })} />)).toContain("Data will be lost");
});

test("warnings are told, and what is not known of the cost is not made up", () => {
  const text = html(
    <ChangePreview
      preview={changePreview({ warnings: ["Clients reconnect."], cost: null, cost_delta: null })}
    />,
  );
  expect(text).toContain("Clients reconnect.");
  expect(figure(text, "Estimated monthly cost")).toBe("Unknown");
  const free = changePreview({ cost_delta: 0 });
  const cost = free.cost && { ...free.cost, total: 0, lines: [] };
  const here = html(<ChangePreview preview={{ ...free, cost }} />);
  expect(figure(here, "Estimated monthly cost")).toBe("$0");
  expect(here).not.toContain("Cost, line by line");
});

test("an empty plan says that nothing changes", () => {
  expect(html(<PlanView changes={[]} />)).toContain("No changes");
});

test("a rename that no plan shows is not reviewed as nothing changing", () => {
  const none = { changes: [], summary: { create: 0, update: 0, replace: 0, delete: 0, import: 0 } };
  const plan = { ...changePreview().plan, ...none };
  const renamed = changePreview({
    plan,
    spec_changes: [
      { field: "name", before: "orders", after: "ledger" },
      { field: "labels.team", before: null, after: "payments" },
    ],
  });
  const text = html(<ChangePreview preview={renamed} />);
  expect(figure(text, "Plan")).toBe("2 settings change");
  for (const part of ["orders", "ledger", "Label team", "payments"]) expect(text).toContain(part);
  expect(changesNothing(renamed)).toBe(false);
  expect(changesNothing(changePreview({ plan }))).toBe(true);
});

test("what there was and is not any more reads as none", () => {
  const attributes = [{ name: "alias", before: "orders", after: null }];
  const text = html(<PlanView changes={[plannedChange({ attributes })]} />);
  expect(text).toMatch(/orders.*becomes.*none/);
});

test("a size that changes on this machine is told by its title, with the restart", () => {
  const process = plannedChange({ address: "process", type: "process", action: "update" });
  const text = html(
    <ChangePreview
      preview={changePreview({
        plan: { ...changePreview().plan, changes: [process] },
        spec_changes: [{ field: "size", before: "dev", after: "small" }],
      })}
    />,
  );
  expect(figure(text, "Plan")).toBe("1 setting changes, the broker restarts");
  expect(text).toContain("Development");
  expect(text).toContain("Small");
});
