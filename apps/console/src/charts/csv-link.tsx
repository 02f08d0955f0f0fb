import { Button } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { type Range, stepOf } from "./chart-range.ts";

/** Where all series of a cluster over the charts' range are to be had as CSV, with the charts' step. */
export function csvPath(clusterId: string, { from, to }: Range): string {
  const query = new URLSearchParams({ from: String(from), to: String(to) });
  query.set("step", `${stepOf({ from, to })}s`);
  return `/v1/clusters/${encodeURIComponent(clusterId)}/metrics/export?${query}`;
}

/** Downloads what the charts show, and the cluster's other series of that range. */
export function CsvLink({ clusterId, range }: { clusterId: string; range: Range }) {
  return (
    <Button
      component="a"
      href={csvPath(clusterId, range)}
      download={`${clusterId}-metrics.csv`}
      variant="default"
      size="xs"
      leftSection={<IconDownload size={14} />}
    >
      Download CSV
    </Button>
  );
}
