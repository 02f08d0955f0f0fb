"use client";

import { Anchor, Badge, Card, Checkbox, Stack, Table, Text } from "@mantine/core";
import type { Benchmark } from "@millrace/contract";
import Link from "next/link";
import { byteRate, latency } from "../format/quantity.ts";
import { ago, moment } from "../format/time.ts";
import { WideTable } from "../shell/wide-table.tsx";
import { ChangeLine } from "../tuning/confirm-change.tsx";
import { authorText, BEHIND_TEXT, loadText, mainLatency, WORKLOADS } from "./benchmark-words.ts";

interface BenchmarkTableProps {
  clusterId: string;
  benchmarks: readonly Benchmark[];
  /** Ids of those to be compared. */
  chosen: readonly string[];
  onChoose: (id: string) => void;
}

/** Benchmarks with their main figures; those with a report can be chosen for a comparison. */
export function BenchmarkTable({ clusterId, benchmarks, chosen, onChoose }: BenchmarkTableProps) {
  return (
    <Card padding={0}>
      <WideTable label="Benchmarks" minWidth={860}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={40} aria-label="Compare" />
            <Table.Th>Benchmark</Table.Th>
            <Table.Th ta="right">Throughput</Table.Th>
            <Table.Th ta="right">p99 latency</Table.Th>
            <Table.Th>Tuning since the last report</Table.Th>
            <Table.Th>State</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {benchmarks.map((benchmark) => (
            <Row
              key={benchmark.id}
              href={`/clusters/${clusterId}/benchmarks/${benchmark.id}`}
              benchmark={benchmark}
              checked={chosen.includes(benchmark.id)}
              onChoose={() => onChoose(benchmark.id)}
            />
          ))}
        </Table.Tbody>
      </WideTable>
    </Card>
  );
}

interface RowProps {
  href: string;
  benchmark: Benchmark;
  checked: boolean;
  onChoose: () => void;
}

function Row({ href, benchmark, checked, onChoose }: RowProps) {
  const { report } = benchmark;
  const throughput = report?.catch_up ?? report?.produced;
  const p99 = mainLatency(benchmark);
  const title = WORKLOADS[benchmark.workload].title;
  const when = ago(benchmark.created_at);
  return (
    <Table.Tr data-benchmark={benchmark.phase}>
      <Table.Td>
        <Checkbox
          size="xs"
          aria-label={`Select ${title}, ${when}`}
          checked={checked}
          disabled={report === null}
          onChange={onChoose}
        />
      </Table.Td>
      <Table.Td>
        <Anchor component={Link} href={href} fz="sm" fw={600}>
          {title}
        </Anchor>
        <Text fz="xs" className="quiet" title={moment(benchmark.created_at)}>
          {when}, by {authorText(benchmark)}
        </Text>
        <Text fz="xs" className="quiet number">
          {loadText(benchmark)}
        </Text>
        {report?.kept_up === false && <Text fz="xs">{BEHIND_TEXT}</Text>}
      </Table.Td>
      <Table.Td ta="right" className="number">
        {throughput ? byteRate(throughput.bytes_per_second) : "–"}
      </Table.Td>
      <Table.Td ta="right" className="number">
        {p99 === undefined ? "–" : latency(p99)}
      </Table.Td>
      <Table.Td>
        <TuningChanges tuning={benchmark.tuning} />
      </Table.Td>
      <Table.Td>
        <PhaseBadge benchmark={benchmark} />
      </Table.Td>
    </Table.Tr>
  );
}

/** What was tuned since the last benchmark with a report. */
export function TuningChanges({ tuning }: { tuning: Benchmark["tuning"] }) {
  return (
    <Stack gap={4}>
      {tuning.changes.length === 0 && (
        <Text fz="sm" className="quiet">
          No changes
        </Text>
      )}
      {tuning.changes.map(({ field, from, to }) => (
        <ChangeLine key={field} change={{ knob: field, from, to, toDefault: false }} />
      ))}
      {tuning.changed_during_run && (
        <Text fz="xs" className="quiet">
          Changed again while the benchmark ran.
        </Text>
      )}
    </Stack>
  );
}

const PHASES: Record<Benchmark["phase"], readonly [color: string, word: string]> = {
  PENDING: ["gray", "Starting"],
  RUNNING: ["blue", "Running"],
  WAITING: ["orange", "Waiting"],
  SUCCEEDED: ["green", "Done"],
  FAILED: ["red", "Failed"],
  CANCELLED: ["gray", "Cancelled"],
};

export function PhaseBadge({ benchmark: { phase } }: { benchmark: Pick<Benchmark, "phase"> }) {
  const [color, word] = PHASES[phase];
  return (
    <Badge variant="dot" color={color} c="inherit" tt="none" fw={500}>
      {word}
    </Badge>
  );
}
