"use client";

import { Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Benchmark, Cluster } from "@millrace/contract";
import { IconArrowsDiff, IconGauge } from "@tabler/icons-react";
import Link from "next/link";
import { useState } from "react";
import { useCluster } from "../cluster/live.ts";
import { OperationPanel } from "../operation/operation-panel.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { TuningHistory } from "../tuning/tuning-history.tsx";
import { BenchmarkCharts } from "./benchmark-charts.tsx";
import { BenchmarkTable } from "./benchmark-table.tsx";
import { isDone } from "./benchmark-words.ts";
import { RunBenchmarkDialog } from "./run-benchmark-dialog.tsx";
import { useBenchmark, useBenchmarks } from "./use-benchmarks.ts";

/** Chosen to be compared. */
const COMPARED = 2;

/** A cluster's benchmarks: the running one live, the earlier ones beside the tuning's history. */
export function BenchmarkList({ clusterId }: { clusterId: string }) {
  const { data: cluster } = useCluster(clusterId);
  const { data, error, isPending, fetchNextPage, hasNextPage, isFetchingNextPage } =
    useBenchmarks(clusterId);
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const benchmarks = data?.pages.flatMap((page) => page.items) ?? [];
  const running = benchmarks.find((benchmark) => !isDone(benchmark));
  const button = cluster && (
    <RunButton cluster={cluster} last={benchmarks[0]} busy={running !== undefined} />
  );
  return (
    <Stack gap="md">
      {benchmarks.length > 0 && (
        <Group justify="space-between">
          <Text fz="sm" className="quiet" maw={560}>
            Each benchmark writes to a temporary topic and keeps its figures, with the tuning that
            was in force. The last 50 are kept.
          </Text>
          <Group gap="xs">
            <CompareButton clusterId={clusterId} chosen={chosen} />
            {button}
          </Group>
        </Group>
      )}
      {error && <ProblemAlert error={error} title="Cannot load the benchmarks" />}
      {isPending && <Skeleton h={160} radius="md" />}
      {data && benchmarks.length === 0 && (
        <Empty
          title="No benchmarks yet"
          text="Measure this cluster's throughput and latency with a bounded load on a temporary topic, and compare runs before and after a tuning change."
        >
          {button}
        </Empty>
      )}
      {running && <RunningBenchmark clusterId={clusterId} benchmarkId={running.id} />}
      {benchmarks.length > 0 && (
        <BenchmarkTable
          clusterId={clusterId}
          benchmarks={benchmarks}
          chosen={chosen}
          onChoose={(id) => setChosen((before) => toggled(before, id))}
        />
      )}
      {hasNextPage && <ShowMore loading={isFetchingNextPage} onClick={() => fetchNextPage()} />}
      {benchmarks.length > 0 && <TuningHistory clusterId={clusterId} title="Tuning history" />}
    </Stack>
  );
}

/** With `id`, or without it; at most two, of which the older goes. */
export function toggled(chosen: readonly string[], id: string): readonly string[] {
  if (chosen.includes(id)) return chosen.filter((each) => each !== id);
  return [...chosen, id].slice(-COMPARED);
}

interface RunButtonProps {
  cluster: Cluster;
  /** Its load is offered again: only the same load can be compared. */
  last: Benchmark | undefined;
  busy: boolean;
}

function RunButton({ cluster, last, busy }: RunButtonProps) {
  const [opened, dialog] = useDisclosure(false);
  const mayRun = useAllowed("benchmark:run");
  if (!mayRun) return null;
  const reason = refusal(cluster);
  if (reason !== undefined) {
    return (
      <Text fz="sm" className="quiet">
        {reason}
      </Text>
    );
  }
  return (
    <>
      <Button leftSection={<IconGauge size={16} />} disabled={busy} onClick={dialog.open}>
        Run benchmark
      </Button>
      <RunBenchmarkDialog cluster={cluster} last={last} opened={opened} onClose={dialog.close} />
    </>
  );
}

/** Why no benchmark can start now; undefined where one can. */
export function refusal({ status }: Cluster): string | undefined {
  if (status.provider === "aws") {
    return "Benchmarks are not available for clusters on AWS yet. Run millrace perf from a machine in the cluster's network.";
  }
  if (status.phase === "PAUSED") return "Resume the cluster to run a benchmark.";
  if (status.phase !== "RUNNING") return "A benchmark can run once the cluster is running.";
  return undefined;
}

function CompareButton({ clusterId, chosen }: { clusterId: string; chosen: readonly string[] }) {
  const [a, b] = chosen;
  const label = "Compare";
  const icon = <IconArrowsDiff size={16} />;
  if (a === undefined || b === undefined) {
    return (
      <Button variant="default" leftSection={icon} disabled title="Select two benchmarks">
        {label}
      </Button>
    );
  }
  return (
    <Button
      variant="default"
      leftSection={icon}
      component={Link}
      href={`/clusters/${clusterId}/benchmarks/compare?a=${a}&b=${b}`}
    >
      {label}
    </Button>
  );
}

/** The load as it runs: its steps, and a chart that grows each second. */
function RunningBenchmark({ clusterId, benchmarkId }: { clusterId: string; benchmarkId: string }) {
  const { data: run } = useBenchmark(clusterId, benchmarkId);
  if (!run) return <Skeleton h={240} radius="md" />;
  return (
    <Stack component="section" aria-label="Running benchmark" gap="md">
      <OperationPanel operationId={run.operation_id} clusterId={clusterId} />
      {run.samples.length > 0 && <BenchmarkCharts run={run} />}
    </Stack>
  );
}
