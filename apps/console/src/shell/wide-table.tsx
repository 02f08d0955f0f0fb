import { Table } from "@mantine/core";
import type { ReactNode } from "react";

interface WideTableProps {
  /** What the table lists, for readers of the screen. */
  label: string;
  /** Width in pixels below which it scrolls sideways, by keyboard too. */
  minWidth: number;
  children: ReactNode;
}

export function WideTable({ label, minWidth, children }: WideTableProps) {
  return (
    <Table.ScrollContainer
      minWidth={minWidth}
      scrollAreaProps={{
        viewportProps: { tabIndex: 0, role: "region", "aria-label": label },
      }}
    >
      <Table horizontalSpacing="lg">{children}</Table>
    </Table.ScrollContainer>
  );
}
