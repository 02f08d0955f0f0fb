"use client";

import {
  Accordion,
  Alert,
  Card,
  Code,
  Group,
  List,
  SimpleGrid,
  Stack,
  Table,
  Text,
  Title,
} from "@mantine/core";
import type { ChangePreview as Preview } from "@millrace/contract";
import { CLUSTER_SIZE_NAMES, sizingOf } from "@millrace/domain";
import {
  IconAlertTriangle,
  IconArrowRight,
  IconShieldCheck,
  IconShieldX,
} from "@tabler/icons-react";
import type { ReactNode } from "react";
import { usd, usdChange } from "../format/money.ts";
import { costFrom } from "./cost.ts";
import { CostTable } from "./cost-table.tsx";
import { losesData, summaryText } from "./plan-groups.ts";
import { PlanView } from "./plan-view.tsx";
import { RecoveryReport } from "./recovery-report.tsx";

/** What a change would do, before it is applied: settings, resources, policy, cost. */
export function ChangePreview({ preview }: { preview: Preview }) {
  const { plan, cost, cost_delta, policy, warnings, spec_changes } = preview;
  return (
    <Stack gap="md" data-preview>
      {!plan.recovery && (
        <SimpleGrid cols={{ base: 1, sm: 3 }}>
          <Figure label="Plan" value={planText(preview)} />
          <Figure label="Estimated monthly cost" value={costText(cost, cost_delta)} />
          <Figure label="Policy" value={policyText(policy)} />
        </SimpleGrid>
      )}
      {losesData(plan.changes) && <LossAlert />}
      <Warnings warnings={warnings} />
      <PolicyFindings findings={policy} />
      {plan.recovery && (
        <Part title="Recovery">
          <RecoveryReport report={plan.recovery} />
        </Part>
      )}
      {spec_changes.length > 0 && (
        <Part title="Settings">
          <SpecChanges changes={spec_changes} />
        </Part>
      )}
      {!plan.recovery && (plan.changes.length > 0 || spec_changes.length === 0) && (
        <Part title="Resources">
          <PlanView changes={plan.changes} />
        </Part>
      )}
      {cost && cost.lines.length > 0 && (
        <Part title="Cost">
          <CostTable cost={costFrom(cost)} delta={cost_delta} />
        </Part>
      )}
      {plan.diff !== "" && <Diff text={plan.diff} />}
    </Stack>
  );
}

/** True where applying the change would do nothing at all. */
export function changesNothing({ plan, spec_changes }: Preview): boolean {
  return plan.changes.length === 0 && spec_changes.length === 0;
}

/** `2 settings change, 1 to change`; `1 setting changes, the broker restarts`. */
function planText({ plan, spec_changes: { length } }: Preview): string {
  const settings = length === 1 ? "1 setting changes" : `${length} settings change`;
  if (length === 0) return summaryText(plan.summary);
  if (plan.changes.length === 0) return settings;
  const restarts = plan.changes.some(
    ({ type, action }) => type === "process" && action !== "create",
  );
  return `${settings}, ${restarts ? "the broker restarts" : summaryText(plan.summary)}`;
}

function SpecChanges({ changes }: { changes: Preview["spec_changes"] }) {
  return (
    <Table verticalSpacing={4} fz="sm" aria-label="Settings" withRowBorders={false}>
      <Table.Tbody>
        {changes.map(({ field, before, after }) => (
          <Table.Tr key={field} data-setting={field}>
            <Table.Td w="32%" className="quiet" style={{ overflowWrap: "anywhere" }}>
              {fieldTitle(field)}
            </Table.Td>
            <Table.Td style={{ overflowWrap: "anywhere" }}>
              <span className="quiet">{valueText(field, before)}</span>{" "}
              <IconArrowRight size={12} role="img" aria-label="becomes" /> {valueText(field, after)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

const FIELD_TITLES: Readonly<Record<string, string>> = {
  name: "Name",
  size: "Size",
  deletion_protection: "Deletion protection",
  plaintext_listener: "Plaintext listener",
};
const VALUE_WORDS: Readonly<Record<string, string>> = { true: "on", false: "off", "": "empty" };

function fieldTitle(field: string): string {
  return FIELD_TITLES[field] ?? `Label ${field.replace("labels.", "")}`;
}

function valueText(field: string, value: string | null): string {
  if (value === null) return "none";
  const size = CLUSTER_SIZE_NAMES.find((name) => field === "size" && name === value);
  return size === undefined ? (VALUE_WORDS[value] ?? value) : sizingOf(size).title;
}

function costText(cost: Preview["cost"], delta: number | null): string {
  if (cost === null) return "Unknown";
  if (cost.lines.length === 0) return "$0";
  // Of what is new, all is more.
  const tells = delta !== null && delta !== cost.total;
  return tells ? `${usd(cost.total)} (${usdChange(delta)})` : usd(cost.total);
}

function policyText(findings: Preview["policy"]): string {
  const errors = findings.filter(({ severity }) => severity === "error").length;
  if (errors > 0) return errors === 1 ? "1 check failed" : `${errors} checks failed`;
  if (findings.length === 0) return "All checks passed";
  return findings.length === 1 ? "Passed, 1 warning" : `Passed, ${findings.length} warnings`;
}

function Figure({ label, value }: { label: string; value: string }) {
  return (
    <Card padding="md">
      <Text fz="xs" className="quiet">
        {label}
      </Text>
      <Text fw={650} className="number" data-figure={label}>
        {value}
      </Text>
    </Card>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Card component="section" aria-label={title}>
      <Title order={3} fz="h5" mb="sm">
        {title}
      </Title>
      {children}
    </Card>
  );
}

function LossAlert() {
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle size={18} />}
      role="alert"
      title="Data will be lost"
    >
      This plan deletes a volume, a bucket or a folder, and all data in it.
    </Alert>
  );
}

function Warnings({ warnings }: { warnings: Preview["warnings"] }) {
  if (warnings.length === 0) return null;
  return (
    <Alert
      color="orange"
      icon={<IconAlertTriangle size={18} />}
      styles={{ title: { color: "var(--mantine-color-text)" } }}
      title="Before you continue"
    >
      <List fz="sm" spacing={4}>
        {warnings.map((warning) => (
          <List.Item key={warning}>{warning}</List.Item>
        ))}
      </List>
    </Alert>
  );
}

/** Policy checks that the plan fails, and warnings. */
export function PolicyFindings({ findings }: { findings: Preview["policy"] }) {
  if (findings.length === 0) return null;
  const broken = findings.some(({ severity }) => severity === "error");
  return (
    <Alert
      color={broken ? "red" : "gray"}
      icon={broken ? <IconShieldX size={18} /> : <IconShieldCheck size={18} />}
      title={broken ? "Policy checks failed: this plan cannot be applied" : "Policy warnings"}
    >
      <Stack gap="xs">
        {findings.map((finding) => (
          <div key={`${finding.rule} ${finding.address}`} data-finding={finding.rule}>
            <Group gap="xs">
              <Text fz="sm" fw={600}>
                {finding.rule}
              </Text>
              <Code fz="xs">{finding.address}</Code>
            </Group>
            <Text fz="sm">{finding.message}</Text>
          </div>
        ))}
      </Stack>
    </Alert>
  );
}

/** The plan as text, to paste into a ticket. */
function Diff({ text }: { text: string }) {
  return (
    <Accordion variant="contained" order={3}>
      <Accordion.Item value="diff">
        <Accordion.Control>
          <Text fz="sm" fw={600}>
            Plan as text
          </Text>
        </Accordion.Control>
        <Accordion.Panel>
          <Code block fz="xs" mah={420} style={{ overflow: "auto" }} tabIndex={0}>
            {text}
          </Code>
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  );
}
