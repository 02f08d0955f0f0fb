"use client";

import { Alert, Code, Stack, Table, Text } from "@mantine/core";
import type { ChangePlan } from "@millrace/contract";
import { MISSING_SHOWN_MAX } from "@millrace/domain";
import { IconAlertTriangle, IconCheck } from "@tabler/icons-react";
import { int64 } from "../format/quantity.ts";
import { exactMoment, withMoments } from "../format/time.ts";

type Report = NonNullable<ChangePlan["recovery"]>;

/** What a recovery brings back, and which acknowledged records are missing. */
export function RecoveryReport({ report }: { report: Report }) {
  return (
    <Stack gap="md" data-recovery>
      <Text fz="sm">
        {counted(report.topics, "topic")} with {counted(report.partitions, "partition")}, internal
        topics included, {report.topics === 1 ? "comes" : "come"} back as of{" "}
        <time dateTime={report.recovered_to} title={report.recovered_to}>
          {exactMoment(report.recovered_to)}
        </time>
        . {logText(report)}
      </Text>
      {report.missing_partitions === 0 ? <Complete source={report.source} /> : <Loss {...report} />}
      {report.warnings.map((warning) => (
        <Text key={warning} fz="sm">
          {sentence(withMoments(warning))}
        </Text>
      ))}
    </Stack>
  );
}

/** `1 topic`, `14,000 partitions`. */
function counted(amount: number, noun: string): string {
  return `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
}

function logText({ source, records_from_wal }: Report): string {
  if (source === "bucket") return "The write-ahead log is lost: only uploaded records come back.";
  if (records_from_wal === "0") {
    return "The write-ahead log is intact. All records are in the bucket already.";
  }
  return `The write-ahead log is intact: ${int64(records_from_wal)} ${records_from_wal === "1" ? "record is" : "records are"} read from it.`;
}

function sentence(text: string): string {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return capital.endsWith(".") ? capital : `${capital}.`;
}

/** Without the log, records may be acknowledged after the last backup: nobody can say that none were. */
function Complete({ source }: Pick<Report, "source">) {
  if (source === "bucket+wal") {
    return (
      <Alert
        color="green"
        icon={<IconCheck size={18} />}
        title="No acknowledged record is missing"
      />
    );
  }
  return (
    <Alert
      color="yellow"
      icon={<IconAlertTriangle size={18} />}
      title="No missing records are known"
    >
      Records that were acknowledged after the last backup may be missing.
    </Alert>
  );
}

function Loss({ missing, missing_partitions }: Report) {
  const shown = new Set(missing.map(({ topic, partition }) => `${topic}-${partition}`));
  const others = missing_partitions - shown.size;
  const total = missing.reduce((sum, range) => sum + recordsOf(range), 0n);
  const atLeast = missing.length === MISSING_SHOWN_MAX || others > 0 ? "At least " : "";
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle size={18} />}
      role="alert"
      title={`${atLeast}${total.toLocaleString("en")} acknowledged ${total === 1n ? "record is" : "records are"} missing in ${counted(missing_partitions, "partition")}`}
    >
      <Table.ScrollContainer minWidth={480} mah={360}>
        <Table aria-label="Missing records">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Partition</Table.Th>
              <Table.Th ta="right">Records</Table.Th>
              <Table.Th ta="right">From offset</Table.Th>
              <Table.Th ta="right">To offset (exclusive)</Table.Th>
              <Table.Th>Acknowledged before</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {missing.map((range) => (
              <LossRow
                key={`${range.topic}-${range.partition}-${range.from_offset}`}
                range={range}
              />
            ))}
          </Table.Tbody>
          <Table.Tfoot>
            <Table.Tr>
              <Table.Th>{atLeast === "" ? "Total" : "Total of these"}</Table.Th>
              <Table.Th ta="right" className="number">
                {total.toLocaleString("en")}
              </Table.Th>
            </Table.Tr>
          </Table.Tfoot>
        </Table>
      </Table.ScrollContainer>
      {missing.length === MISSING_SHOWN_MAX && (
        <Text fz="sm">Only the first {MISSING_SHOWN_MAX} ranges are listed.</Text>
      )}
      {others > 0 && <Text fz="sm">And {others} more partitions.</Text>}
    </Alert>
  );
}

type Range = Report["missing"][number];

function recordsOf({ from_offset, to_offset }: Range): bigint {
  return BigInt(to_offset) - BigInt(from_offset);
}

function LossRow({ range }: { range: Range }) {
  const { topic, partition, from_offset, to_offset, acknowledged_by } = range;
  return (
    <Table.Tr>
      <Table.Td>
        <Code>{`${topic}-${partition}`}</Code>
      </Table.Td>
      <Table.Td ta="right" className="number">
        {recordsOf(range).toLocaleString("en")}
      </Table.Td>
      <Table.Td ta="right" className="number">
        {int64(from_offset)}
      </Table.Td>
      <Table.Td ta="right" className="number">
        {int64(to_offset)}
      </Table.Td>
      <Table.Td>
        <time dateTime={acknowledged_by} title={acknowledged_by}>
          {exactMoment(acknowledged_by)}
        </time>
      </Table.Td>
    </Table.Tr>
  );
}
