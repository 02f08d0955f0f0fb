import { Group, Table, Text } from "@mantine/core";
import type { CostEstimate } from "@millrace/domain";
import { unitPrice, usd, usdChange } from "../format/money.ts";

/** The estimated monthly cost of a cluster, line by line. */
export function CostTable({ cost, delta }: { cost: CostEstimate; delta: number | null }) {
  return (
    <div>
      <Table.ScrollContainer
        minWidth={520}
        scrollAreaProps={{
          viewportProps: { tabIndex: 0, role: "region", "aria-label": "Cost, line by line" },
        }}
      >
        <Table fz="sm" verticalSpacing={6} highlightOnHover={false}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Item</Table.Th>
              <Table.Th ta="right">Quantity</Table.Th>
              <Table.Th ta="right">Price</Table.Th>
              <Table.Th ta="right">Per month</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {cost.lines.map((line) => (
              <Table.Tr key={line.item}>
                <Table.Td>{line.item}</Table.Td>
                <Table.Td ta="right" className="number">
                  {quantity(line)}
                </Table.Td>
                <Table.Td ta="right" className="number quiet">
                  {unitPrice(line.unitPrice)}
                </Table.Td>
                <Table.Td ta="right" className="number">
                  {usd(line.monthly)}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Group justify="space-between" pt="sm" align="baseline">
        <Text fz="xs" className="quiet" maw={520}>
          Estimate. {cost.assumptions.join(" ")}
        </Text>
        <Text fw={650} className="number" data-cost-total>
          {usd(cost.total)} per month
          {delta !== null && delta !== cost.total && ` (${usdChange(delta)})`}
        </Text>
      </Group>
    </div>
  );
}

/** `730 hour`, `64 × 1000 requests`: a unit that begins with a number is counted. */
function quantity({ quantity: amount, unit }: CostEstimate["lines"][number]): string {
  const text = amount.toLocaleString("en", { maximumFractionDigits: 2 });
  return /^\d/.test(unit) ? `${text} × ${unit}` : `${text} ${unit}`;
}
