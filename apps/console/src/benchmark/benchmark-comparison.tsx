"use client";

import {
  Alert,
  Anchor,
  Box,
  Card,
  Group,
  Skeleton,
  Stack,
  Table,
  Text,
  Title,
} from "@mantine/core";
import type { BenchmarkDetail } from "@millrace/contract";
import { TUNING_KNOBS } from "@millrace/domain";
import { IconInfoCircle } from "@tabler/icons-react";
import Link from "next/link";
import { moment } from "../format/time.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ChangeLine } from "../tuning/confirm-change.tsx";
import { OverlaidCharts } from "./benchmark-charts.tsx";
import { changeText, type Figure, figuresOf, loadText, WORKLOADS } from "./benchmark-words.ts";
import { useBenchmark } from "./use-benchmarks.ts";

/** Two benchmarks side by side: figures, charts on one time axis, and what differs between them. */
export function BenchmarkComparison(props: { clusterId: string; first: string; second: string }) {
  const { clusterId } = props;
  const one = useBenchmark(clusterId, props.first);
  const other = useBenchmark(clusterId, props.second);
  const error = one.error ?? other.error;
  const pair = one.data && other.data ? inOrder(one.data, other.data) : undefined;
  return (
    <Stack gap="md">
      <Anchor component={Link} href={`/clusters/${clusterId}/benchmarks`} fz="sm">
        All benchmarks
      </Anchor>
      {error && <ProblemAlert error={error} title="Cannot load the benchmarks" />}
      {!pair && !error && <Skeleton h={320} radius="md" />}
      {pair && <Comparison first={pair[0]} second={pair[1]} />}
    </Stack>
  );
}

/** The older one is A, whichever was chosen first. */
function inOrder(a: BenchmarkDetail, b: BenchmarkDetail): [BenchmarkDetail, BenchmarkDetail] {
  return a.created_at <= b.created_at ? [a, b] : [b, a];
}

interface Pair {
  first: BenchmarkDetail;
  second: BenchmarkDetail;
}

function Comparison({ first, second }: Pair) {
  return (
    <>
      <Title order={2} fz="h3">
        Compare benchmarks
      </Title>
      {!isSameLoad(first, second) && (
        <Alert color="gray" icon={<IconInfoCircle size={18} />} role="note">
          The loads differ, so the figures are not directly comparable.
        </Alert>
      )}
      <FigureTable first={first} second={second} />
      <OverlaidCharts first={first} second={second} />
      <TuningBetween first={first} second={second} />
    </>
  );
}

export function isSameLoad(first: BenchmarkDetail, second: BenchmarkDetail): boolean {
  return (
    first.workload === second.workload &&
    first.size === second.size &&
    loadText(first) === loadText(second)
  );
}

/** The figures of both, a row for each that one of them has. */
export function FigureTable({ first, second }: Pair) {
  const ours = new Map(figuresOf(first).map((figure) => [figure.name, figure]));
  const theirs = new Map(figuresOf(second).map((figure) => [figure.name, figure]));
  const names = [...new Set([...ours.keys(), ...theirs.keys()])];
  return (
    <Card padding={0}>
      <Table.ScrollContainer minWidth={560}>
        <Table horizontalSpacing="lg">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Metric</Table.Th>
              <RunHeader letter="A" color="in" run={first} />
              <RunHeader letter="B" color="out" run={second} />
              <Table.Th ta="right">Change</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {names.map((name) => (
              <FigureRow key={name} name={name} a={ours.get(name)} b={theirs.get(name)} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}

function RunHeader(props: { letter: string; color: "in" | "out"; run: BenchmarkDetail }) {
  const { letter, color, run } = props;
  return (
    <Table.Th ta="right">
      <Group gap={6} justify="flex-end">
        <Box w={10} h={3} bg={`var(--chart-${color})`} style={{ borderRadius: 2 }} />
        {letter}: {WORKLOADS[run.workload].title}
      </Group>
      <Text fz="xs" className="quiet">
        {moment(run.created_at)}
      </Text>
      <Text fz="xs" className="quiet number">
        {loadText(run)}
      </Text>
    </Table.Th>
  );
}

function FigureRow(props: { name: string; a: Figure | undefined; b: Figure | undefined }) {
  const { name, a, b } = props;
  const change = a && b ? changeText(a.value, b.value) : undefined;
  const better = a && b && b.value > a.value === a.higherIsBetter;
  const equal = change === undefined || change === "±0 %";
  return (
    <Table.Tr data-compared={name}>
      <Table.Td>{name}</Table.Td>
      <Table.Td ta="right" className="number">
        {a ? a.format(a.value) : "–"}
      </Table.Td>
      <Table.Td ta="right" className="number">
        {b ? b.format(b.value) : "–"}
      </Table.Td>
      <Table.Td ta="right" className="number">
        {change ?? "–"}
        {!equal && (
          <Text span fz="xs" className="quiet">
            {better ? " better" : " worse"}
          </Text>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

/** What was tuned between the two. */
function TuningBetween({ first, second }: Pair) {
  const [from, to] = [first.tuning.values, second.tuning.values];
  const changed = TUNING_KNOBS.filter((knob) => from[knob] !== to[knob]);
  return (
    <Card component="section" aria-label="Tuning">
      <Title order={3} fz="h5" mb="sm">
        Tuning from A to B
      </Title>
      {changed.length === 0 && (
        <Text fz="sm" className="quiet">
          No changes
        </Text>
      )}
      <Stack gap={4}>
        {changed.map((knob) => (
          <ChangeLine
            key={knob}
            change={{ knob, from: from[knob], to: to[knob], toDefault: false }}
          />
        ))}
      </Stack>
    </Card>
  );
}
