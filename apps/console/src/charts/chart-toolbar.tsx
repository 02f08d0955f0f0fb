"use client";

import { Button, Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { moment } from "../format/time.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { CsvLink } from "./csv-link.tsx";
import { CustomRangeButton } from "./custom-range-dialog.tsx";
import { useChartMetrics } from "./use-chart-metrics.ts";

interface ChartToolbarProps {
  clusterId: string;
  /** What the charts show while they are live. */
  minutes: number;
  /** What else is chosen for all charts. */
  children?: ReactNode;
}

/** What all charts of a page have in common: their range and its download. Once per page, above the charts. */
export function ChartToolbar({ clusterId, minutes, children }: ChartToolbarProps) {
  const { range, setRange, data, error, span } = useChartMetrics(clusterId, minutes);
  return (
    <>
      {error && <ProblemAlert error={error} title="Cannot load the metrics" />}
      <Group gap="sm" justify="flex-end">
        {children}
        {range && (
          <Group gap="sm" role="status">
            <Text fz="sm" className="quiet">
              {moment(new Date(range.from).toISOString())} to{" "}
              {moment(new Date(range.to).toISOString())}
            </Text>
            <Button variant="default" size="xs" onClick={() => setRange(undefined)}>
              Reset zoom
            </Button>
          </Group>
        )}
        <CustomRangeButton shown={span} onApply={setRange} />
        {data && <CsvLink clusterId={clusterId} range={range ?? data} />}
      </Group>
    </>
  );
}
