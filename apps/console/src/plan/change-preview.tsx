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
  Text,
  Title,
} from "@mantine/core";
import type { ChangePreview as Preview } from "@millrace/contract";
import { IconAlertTriangle, IconShieldCheck, IconShieldX } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { usd, usdChange } from "../format/money.ts";
import { costFrom } from "./cost.ts";
import { CostTable } from "./cost-table.tsx";
import { losesData, summaryText } from "./plan-groups.ts";
import { PlanView } from "./plan-view.tsx";
import { RecoveryReport } from "./recovery-report.tsx";

/** What a change would do, before it is done: resources, policy, cost. */
export function ChangePreview({ preview }: { preview: Preview }) {
  const { plan, cost, cost_delta, policy, warnings } = preview;
  return (
    <Stack gap="md" data-preview>
      <SimpleGrid cols={{ base: 1, sm: 3 }}>
        <Figure label="Plan" value={summaryText(plan.summary)} />
        <Figure label="A month, estimated" value={costText(cost, cost_delta)} />
        <Figure label="Policy" value={policyText(policy)} />
      </SimpleGrid>
      {losesData(plan.changes) && <LossAlert />}
      <Warnings warnings={warnings} />
      <PolicyFindings findings={policy} />
      {plan.recovery ? (
        <Part title="What comes back">
          <RecoveryReport report={plan.recovery} />
        </Part>
      ) : (
        <Part title="What changes">
          <PlanView changes={plan.changes} />
        </Part>
      )}
      {cost && cost.lines.length > 0 && (
        <Part title="What it costs">
          <CostTable cost={costFrom(cost)} delta={cost_delta} />
        </Part>
      )}
      {plan.diff !== "" && <Diff text={plan.diff} />}
    </Stack>
  );
}

function costText(cost: Preview["cost"], delta: number | null): string {
  if (cost === null) return "not known";
  if (cost.lines.length === 0) return "nothing";
  // Of what is new, all is more.
  const tells = delta !== null && delta !== cost.total;
  return tells ? `${usd(cost.total)} (${usdChange(delta)})` : usd(cost.total);
}

function policyText(findings: Preview["policy"]): string {
  const errors = findings.filter(({ severity }) => severity === "error").length;
  if (errors > 0) return errors === 1 ? "1 rule is broken" : `${errors} rules are broken`;
  if (findings.length === 0) return "every rule passes";
  return findings.length === 1 ? "passes, 1 remark" : `passes, ${findings.length} remarks`;
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
    <Alert color="red" icon={<IconAlertTriangle size={18} />} role="alert" title="Data is lost">
      A volume, a bucket or a folder is taken away, and with it what is in it.
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
      title="Before you go on"
    >
      <List fz="sm" spacing={4}>
        {warnings.map((warning) => (
          <List.Item key={warning}>{warning}</List.Item>
        ))}
      </List>
    </Alert>
  );
}

/** The rules that every stack is held against, and which of them the plan breaks. */
export function PolicyFindings({ findings }: { findings: Preview["policy"] }) {
  if (findings.length === 0) return null;
  const broken = findings.some(({ severity }) => severity === "error");
  return (
    <Alert
      color={broken ? "red" : "gray"}
      icon={broken ? <IconShieldX size={18} /> : <IconShieldCheck size={18} />}
      title={broken ? "The plan breaks rules and is not applied" : "What the rules remark"}
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

/** The plan as text, as it can be put into a ticket. */
function Diff({ text }: { text: string }) {
  return (
    <Accordion variant="contained" order={3}>
      <Accordion.Item value="diff">
        <Accordion.Control>
          <Text fz="sm" fw={600}>
            The plan as text
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
