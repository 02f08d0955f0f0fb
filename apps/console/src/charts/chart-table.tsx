import { ScrollArea, Table } from "@mantine/core";
import { exactMoment } from "../format/time.ts";
import type { ChartLine, Columns } from "./chart-data.ts";
import type { ChartMarker } from "./chart-markers.ts";
import type { Range } from "./chart-range.ts";

interface ChartTableProps {
  title: string;
  lines: readonly ChartLine[];
  columns: Columns;
  markers: readonly ChartMarker[];
  /** What is shown of the markers. */
  span: Range;
  format: (value: number) => string;
  momentText: (seconds: number) => string;
  height: number;
}

/** The moment of a row in the browser's time zone. */
export function clockMoment(seconds: number): string {
  return exactMoment(new Date(seconds * 1_000).toISOString());
}

/** A row has values, or the text of a marker. */
interface Row {
  /** Seconds. */
  at: number;
  cells?: (number | null | undefined)[];
  text?: string;
}

/** A chart's values and markers as a table, newest first. */
export function ChartTable(props: ChartTableProps) {
  const { title, lines, columns, markers, span, format, momentText, height } = props;
  const [moments, ...values] = columns;
  const rows: Row[] = [
    ...markers
      .filter(({ at }) => at >= span.from && at <= span.to)
      .map(({ at, text }) => ({ at: at / 1_000, text })),
    ...moments.map((at, row) => ({ at, cells: values.map((column) => column[row]) })),
  ];
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
          {rows
            .sort((a, b) => b.at - a.at)
            .map(({ at, text, cells }) => (
              <Table.Tr key={`${at} ${text ?? ""}`}>
                <Table.Td style={{ whiteSpace: "nowrap" }}>{momentText(at)}</Table.Td>
                {text !== undefined && (
                  <Table.Td colSpan={lines.length} style={{ whiteSpace: "pre-line" }} data-marker>
                    {text}
                  </Table.Td>
                )}
                {cells &&
                  lines.map(({ label }, index) => {
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
