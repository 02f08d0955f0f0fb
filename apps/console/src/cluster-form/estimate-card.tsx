import { Card, Group, List, Stack, Text } from "@mantine/core";
import type { CostEstimate } from "@millrace/domain";
import { usd } from "../format/money.ts";

/** Cheaper lines are summed up; the plan lists all. */
const SHOWN_FROM_USD = 1;

/** The estimated monthly cost while the form is edited. */
export function EstimateCard({ estimate }: { estimate: CostEstimate | undefined }) {
  return (
    <Card component="section" aria-label="Estimated cost">
      <Stack gap="xs">
        <Text fz="xs" className="quiet">
          Estimated monthly cost
        </Text>
        {estimate ? (
          <Lines estimate={estimate} />
        ) : (
          <Text fz="sm">Fix the volume settings to see an estimate.</Text>
        )}
      </Stack>
    </Card>
  );
}

function Lines({ estimate }: { estimate: CostEstimate }) {
  const shown = estimate.lines.filter(({ monthly }) => monthly >= SHOWN_FROM_USD);
  const rest = estimate.lines.filter(({ monthly }) => monthly < SHOWN_FROM_USD);
  const restSum = rest.reduce((sum, { monthly }) => sum + monthly, 0);
  return (
    <>
      <Text fz="xl" fw={650} className="number" data-estimate>
        {usd(estimate.total)} per month
      </Text>
      {shown.map(({ item, monthly }) => (
        <Line key={item} item={item} monthly={monthly} />
      ))}
      {rest.length > 0 && <Line item={`${rest.length} smaller items`} monthly={restSum} />}
      <List fz="xs" className="quiet" spacing={2} mt="xs">
        {estimate.assumptions.map((assumption) => (
          <List.Item key={assumption}>{assumption}</List.Item>
        ))}
      </List>
    </>
  );
}

function Line({ item, monthly }: { item: string; monthly: number }) {
  return (
    <Group justify="space-between" wrap="nowrap" gap="sm" align="baseline">
      <Text fz="sm">{item}</Text>
      <Text fz="sm" className="number" style={{ whiteSpace: "nowrap" }}>
        {usd(monthly)}
      </Text>
    </Group>
  );
}
