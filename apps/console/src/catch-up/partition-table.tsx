"use client";

import { Group, Pagination, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import { byteRate, bytes, int64 } from "../format/quantity.ts";
import { byUrgency, type CatchUpPartition, etaText } from "./backlog.ts";
import { ModeBadge } from "./mode-badge.tsx";

/** Rows at a time: a group may have thousands of partitions. */
const PAGE_SIZE = 10;

/** A group's partitions, slowest first. */
export function PartitionTable(props: { group: string; partitions: readonly CatchUpPartition[] }) {
  const { group, partitions } = props;
  const [asked, setAsked] = useState(1);
  const pages = Math.max(1, Math.ceil(partitions.length / PAGE_SIZE));
  const page = Math.min(asked, pages);
  const shown = partitions.toSorted(byUrgency).slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE);
  return (
    <Stack gap="sm">
      <Table.ScrollContainer
        minWidth={820}
        scrollAreaProps={{
          viewportProps: { tabIndex: 0, role: "region", "aria-label": `Partitions of ${group}` },
        }}
      >
        <Table verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Partition</Table.Th>
              <Table.Th ta="right">Time left</Table.Th>
              <Table.Th ta="right">Backlog</Table.Th>
              <Table.Th>Status</Table.Th>
              <Table.Th ta="right">Read rate</Table.Th>
              <Table.Th ta="right">Position</Table.Th>
              <Table.Th ta="right">End</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shown.map((one) => (
              <PartitionRow key={`${one.topic}-${one.partition}`} one={one} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {pages > 1 && (
        <Group justify="space-between" gap="xs">
          <Text fz="xs" className="quiet number">
            {(page - 1) * PAGE_SIZE + 1} to {(page - 1) * PAGE_SIZE + shown.length} of{" "}
            {partitions.length}, slowest first
          </Text>
          <Pagination
            size="sm"
            total={pages}
            value={page}
            onChange={setAsked}
            aria-label={`Pages of partitions of ${group}`}
            getControlProps={(control) => ({ "aria-label": `${control} page` })}
            getItemProps={(number) => ({ "aria-label": `page ${number}` })}
          />
        </Group>
      )}
    </Stack>
  );
}

function PartitionRow({ one }: { one: CatchUpPartition }) {
  return (
    <Table.Tr className="number">
      <Table.Td ff="monospace">
        {one.topic}-{one.partition}
      </Table.Td>
      <Table.Td ta="right" style={{ whiteSpace: "nowrap" }}>
        {etaText(one)}
      </Table.Td>
      <Table.Td ta="right">
        {bytes(Number(one.backlog_bytes))}
        <Text fz="xs" className="quiet">
          {int64(one.backlog_records)} records
        </Text>
      </Table.Td>
      <Table.Td>
        <ModeBadge mode={one.mode} />
      </Table.Td>
      <Table.Td ta="right">{byteRate(one.read_bytes_per_second)}</Table.Td>
      <Table.Td ta="right">{int64(one.position)}</Table.Td>
      <Table.Td ta="right">{int64(one.high_watermark)}</Table.Td>
    </Table.Tr>
  );
}
