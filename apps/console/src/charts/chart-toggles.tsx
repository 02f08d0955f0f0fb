import { ActionIcon, Group } from "@mantine/core";
import { IconMathFunction, IconTable } from "@tabler/icons-react";
import type { ReactNode } from "react";

interface ChartTogglesProps {
  title: string;
  log: boolean;
  asTable: boolean;
  onLog: () => void;
  onTable: () => void;
}

/** How a chart is shown: with a log scale, or as a table, which has no scale. */
export function ChartToggles({ title, log, asTable, onLog, onTable }: ChartTogglesProps) {
  return (
    <Group gap={4} wrap="nowrap">
      <Toggle label={`Log scale of ${title}`} on={log} disabled={asTable} onClick={onLog}>
        <IconMathFunction size={16} />
      </Toggle>
      <Toggle label={`${title} as a table`} on={asTable} onClick={onTable}>
        <IconTable size={16} />
      </Toggle>
    </Group>
  );
}

interface ToggleProps {
  label: string;
  on: boolean;
  disabled?: boolean;
  onClick: () => void;
  children: ReactNode;
}

function Toggle({ label, on, disabled = false, onClick, children }: ToggleProps) {
  return (
    <ActionIcon
      variant={on ? "filled" : "default"}
      size="sm"
      title={label}
      aria-label={label}
      aria-pressed={on}
      disabled={disabled}
      onClick={onClick}
    >
      {children}
    </ActionIcon>
  );
}
