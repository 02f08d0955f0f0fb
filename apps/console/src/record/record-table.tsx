"use client";

import { Badge, Box, Card, ScrollArea, Table, Text, UnstyledButton } from "@mantine/core";
import type { KafkaRecord, RecordBytes } from "@millrace/contract";
import { memo } from "react";
import { bytes, int64 } from "../format/quantity.ts";
import { clockTime } from "../format/time.ts";
import { previewOf } from "./record-bytes.ts";

interface RecordTableProps {
  records: readonly KafkaRecord[];
  /** Names the record that is shown beside the list. */
  opened: string | undefined;
  onOpen: (record: KafkaRecord) => void;
}

/** `3:42`, unique within a topic. */
export function placeOf({ partition, offset }: KafkaRecord): string {
  return `${partition}:${offset}`;
}

/** Digits and separators of an offset below a million. */
const OFFSET_CHARS_MIN = 7;

/** On a phone, two columns: time and place, key and value. The size is in the record's detail. */
export function RecordTable({ records, opened, onOpen }: RecordTableProps) {
  const widest = records.reduce(
    (most, { offset }) => Math.max(most, int64(offset).length),
    OFFSET_CHARS_MIN,
  );
  return (
    <Card padding={0}>
      <ScrollArea.Autosize mah="65vh" type="auto">
        <Table
          stickyHeader
          layout="fixed"
          verticalSpacing={6}
          miw={{ base: 0, sm: 760 }}
          aria-label="Records"
        >
          <Table.Thead>
            <Table.Tr>
              <Table.Th w={{ base: 166, sm: 190 }}>Time</Table.Th>
              <Table.Th w={88} ta="right" visibleFrom="sm">
                Partition
              </Table.Th>
              <Table.Th w={`calc(${widest}ch + 30px)`} ta="right" visibleFrom="sm">
                Offset
              </Table.Th>
              <Table.Th w="20%" visibleFrom="sm">
                Key
              </Table.Th>
              <Table.Th>
                <Text span inherit hiddenFrom="sm">
                  Key and value
                </Text>
                <Text span inherit visibleFrom="sm">
                  Value
                </Text>
              </Table.Th>
              <Table.Th w={100} ta="right" pr="lg" visibleFrom="sm">
                Size
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {records.map((record) => (
              <Row
                key={placeOf(record)}
                record={record}
                opened={opened === placeOf(record)}
                onOpen={onOpen}
              />
            ))}
          </Table.Tbody>
        </Table>
      </ScrollArea.Autosize>
    </Card>
  );
}

interface RowProps {
  record: KafkaRecord;
  opened: boolean;
  onOpen: (record: KafkaRecord) => void;
}

/** Drawn once: a live tail adds rows five times a second and changes none. */
const Row = memo(function Row({ record, opened, onOpen }: RowProps) {
  const { partition, offset, timestamp_ms, key, value, size_bytes } = record;
  return (
    <Table.Tr
      data-record={placeOf(record)}
      {...(opened && { bg: "var(--mantine-primary-color-light)" })}
      style={{ cursor: "pointer" }}
      onClick={() => onOpen(record)}
    >
      <Table.Td className="number">
        <UnstyledButton
          fz="sm"
          aria-label={`${clockTime(timestamp_ms)}, partition ${partition}, offset ${offset}`}
          aria-haspopup="dialog"
        >
          {clockTime(timestamp_ms)}
        </UnstyledButton>
        <Text fz="xs" className="quiet" hiddenFrom="sm">
          Partition {partition}, offset {int64(offset)}
        </Text>
      </Table.Td>
      <Table.Td ta="right" className="number" visibleFrom="sm">
        {partition}
      </Table.Td>
      <Table.Td ta="right" className="number" visibleFrom="sm">
        {int64(offset)}
      </Table.Td>
      <Table.Td visibleFrom="sm">
        <Key bytes={key} />
      </Table.Td>
      <Table.Td>
        <Box hiddenFrom="sm" fw={600}>
          <Key bytes={key} />
        </Box>
        {value === null ? <Tombstone /> : <Preview bytes={value} />}
      </Table.Td>
      <Table.Td ta="right" pr="lg" className="number" visibleFrom="sm">
        {bytes(size_bytes)}
      </Table.Td>
    </Table.Tr>
  );
});

function Key({ bytes: given }: { bytes: RecordBytes | null }) {
  return given === null ? <Nothing text="no key" /> : <Preview bytes={given} />;
}

function Preview({ bytes: given }: { bytes: RecordBytes }) {
  if (given.bytes === 0) return <Nothing text="empty" />;
  return (
    <Text ff="monospace" fz="xs" truncate dir="ltr" style={{ unicodeBidi: "isolate" }}>
      {previewOf(given)}
    </Text>
  );
}

function Nothing({ text }: { text: string }) {
  return (
    <Text fz="xs" className="quiet">
      {text}
    </Text>
  );
}

export function Tombstone() {
  return (
    <Badge variant="outline" c="inherit" tt="none" fw={500} size="sm" data-tombstone>
      tombstone
    </Badge>
  );
}
