import { ScrollArea, Table } from "@mantine/core";
import { exactMoment } from "../format/time.ts";
import type { ChartLine, Columns } from "./chart-data.ts";

interface ChartTableProps {
  title: string;
  lines: readonly ChartLine[];
  columns: Columns;
  format: (value: number) => string;
  momentText: (seconds: number) => string;
  height: number;
}

/** The moment of a row in the browser's time zone. */
export function clockMoment(seconds: number): string {
  return exactMoment(new Date(seconds * 1_000).toISOString());
}

/** A chart's values as a table, newest first. */
export function ChartTable(props: ChartTableProps) {
  const { title, lines, columns, format, momentText, height } = props;
  const [moments, ...values] = columns;
  const rows = moments.map((at, row) => ({ at, cells: values.map((column) => column[row]) }));
  return (
    <ScrollArea h={height} viewportProps={{ tabIndex: 0, "aria-label": `${title}, table` }}>
      <Table stickyHeader fz="xs" aria-label={title}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Time</Table.Th>
            {lines.map(({ label }) => (
              <Table.Th key={label} ta="right">
                {label}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.reverse().map(({ at, cells }) => (
            <Table.Tr key={at}>
              <Table.Td>{momentText(at)}</Table.Td>
              {lines.map(({ label }, index) => {
                const value = cells[index];
                return (
                  <Table.Td key={label} ta="right" className="number">
                    {value == null ? "–" : format(value)}
                  </Table.Td>
                );
              })}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
}
