"use client";

import {
  Alert,
  Anchor,
  Card,
  Group,
  SimpleGrid,
  Skeleton,
  Stack,
  Table,
  Text,
  Title,
} from "@mantine/core";
import type { BenchmarkDetail } from "@millrace/contract";
import { sizingOf } from "@millrace/domain";
import { IconAlertTriangle } from "@tabler/icons-react";
import Link from "next/link";
import { statusOf } from "../api/client.tsx";
import { byteRate, bytes } from "../format/quantity.ts";
import { moment } from "../format/time.ts";
import { OperationPanel } from "../operation/operation-panel.tsx";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { BenchmarkCharts } from "./benchmark-charts.tsx";
import { PhaseBadge, TuningChanges } from "./benchmark-table.tsx";
import { authorText, BEHIND_TEXT, figuresOf, isDone, WORKLOADS } from "./benchmark-words.ts";
import { useBenchmark } from "./use-benchmarks.ts";

/** One benchmark: live while it runs, its report afterwards. */
export function BenchmarkPage(props: { clusterId: string; benchmarkId: string }) {
  const { clusterId, benchmarkId } = props;
  const { data: run, error } = useBenchmark(clusterId, benchmarkId);
  return (
    <Stack gap="md">
      <Anchor component={Link} href={`/clusters/${clusterId}/benchmarks`} fz="sm">
        All benchmarks
      </Anchor>
      {error && (statusOf(error) === 404 ? <Missing /> : <Failed error={error} />)}
      {!run && !error && <Skeleton h={320} radius="md" />}
      {run && <Report run={run} clusterId={clusterId} />}
    </Stack>
  );
}

function Missing() {
  return (
    <Empty
      title="Benchmark not found"
      text="The ID is wrong, or it was removed: the last 50 benchmarks of a cluster are kept."
    />
  );
}

function Failed({ error }: { error: unknown }) {
  return <ProblemAlert error={error} title="Cannot load the benchmark" />;
}

function Report({ run, clusterId }: { run: BenchmarkDetail; clusterId: string }) {
  return (
    <>
      <Group gap="md">
        <Title order={2} fz="h3">
          {WORKLOADS[run.workload].title}
        </Title>
        <PhaseBadge benchmark={run} />
        <Text fz="sm" className="quiet">
          {moment(run.created_at)}, by {authorText(run)}
        </Text>
      </Group>
      {run.error && (
        <Alert color="red" icon={<IconAlertTriangle size={18} />} title="The benchmark failed">
          <Text fz="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
            {run.error.message}
          </Text>
        </Alert>
      )}
      {!isDone(run) && <OperationPanel operationId={run.operation_id} clusterId={clusterId} />}
      <Behind run={run} />
      <Figures run={run} />
      {run.samples.length > 0 && <BenchmarkCharts run={run} />}
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Load run={run} />
        <Card component="section" aria-label="Tuning">
          <Title order={3} fz="h5" mb="sm">
            Tuning since the last report
          </Title>
          <TuningChanges tuning={run.tuning} />
        </Card>
      </SimpleGrid>
      <Anchor
        component={Link}
        href={`/clusters/${clusterId}/operations/${run.operation_id}`}
        fz="sm"
      >
        Operation and log
      </Anchor>
    </>
  );
}

/** Latencies of a load that did not reach its rate are not the broker's. */
export function Behind({ run }: { run: Pick<BenchmarkDetail, "report" | "bytes_per_second"> }) {
  const { report, bytes_per_second: wanted } = run;
  if (report === null || report.kept_up) return null;
  const reached = byteRate(report.produced?.bytes_per_second ?? 0);
  return (
    <Alert color="orange" icon={<IconAlertTriangle size={18} />} title="Rate not reached">
      <Text fz="sm">{BEHIND_TEXT}</Text>
      <Text fz="sm" mt={4}>
        {`The load reached ${reached} of ${byteRate(wanted)}. To measure the broker, choose a lower rate.`}
      </Text>
    </Alert>
  );
}

function Figures({ run }: { run: BenchmarkDetail }) {
  const figures = figuresOf(run);
  if (figures.length === 0) return null;
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }}>
      {figures.map(({ name, value, format }) => (
        <Card key={name} padding="md">
          <Text fz="xs" className="quiet">
            {name}
          </Text>
          <Text fz="xl" fw={650} className="number" data-tile={name}>
            {format(value)}
          </Text>
        </Card>
      ))}
    </SimpleGrid>
  );
}

/** What was asked of the cluster. */
function Load({ run }: { run: BenchmarkDetail }) {
  const rows = [
    ["Workload", WORKLOADS[run.workload].title],
    ["Rate", byteRate(run.bytes_per_second)],
    ["Record size", bytes(run.record_size_bytes)],
    ["Partitions", String(run.partitions)],
    ["Duration", `${run.duration_seconds} s`],
    ["Cluster size", sizingOf(run.size).title],
  ] as const;
  return (
    <Card component="section" aria-label="Load">
      <Title order={3} fz="h5" mb="sm">
        Load
      </Title>
      <Table withRowBorders={false} verticalSpacing={4} highlightOnHover={false}>
        <Table.Tbody>
          {rows.map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Th fw={400} pl={0} className="quiet">
                {name}
              </Table.Th>
              <Table.Td className="number">{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}
