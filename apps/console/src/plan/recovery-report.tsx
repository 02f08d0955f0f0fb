"use client";

import { Alert, Code, Stack, Table, Text } from "@mantine/core";
import type { ChangePlan } from "@millrace/contract";
import { MISSING_SHOWN_MAX } from "@millrace/domain";
import { IconAlertTriangle, IconCheck } from "@tabler/icons-react";

type Report = NonNullable<ChangePlan["recovery"]>;

/** What a recovery brings back, and which acknowledged records are missing. */
export function RecoveryReport({ report }: { report: Report }) {
  return (
    <Stack gap="md" data-recovery>
      <Text fz="sm">
        {report.topics} topics with {report.partitions} partitions come back, as of{" "}
        <time dateTime={report.recovered_to}>{report.recovered_to}</time>.{" "}
        {report.source === "bucket+wal"
          ? `The write-ahead log is intact: ${report.records_from_wal} records are read from it.`
          : "The write-ahead log is lost: only uploaded records come back."}
      </Text>
      {report.missing_partitions === 0 ? <Complete source={report.source} /> : <Loss {...report} />}
      {report.warnings.map((warning) => (
        <Text key={warning} fz="sm">
          {warning}
        </Text>
      ))}
    </Stack>
  );
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
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle size={18} />}
      role="alert"
      title={`Acknowledged records are missing in ${missing_partitions} partitions`}
    >
      <Table.ScrollContainer minWidth={480} mah={360}>
        <Table aria-label="Missing records">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Partition</Table.Th>
              <Table.Th>From offset</Table.Th>
              <Table.Th>To offset (exclusive)</Table.Th>
              <Table.Th>Acknowledged by</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {missing.map(({ topic, partition, from_offset, to_offset, acknowledged_by }) => (
              <Table.Tr key={`${topic}-${partition}-${from_offset}`}>
                <Table.Td>
                  <Code>{`${topic}-${partition}`}</Code>
                </Table.Td>
                <Table.Td className="number">{from_offset}</Table.Td>
                <Table.Td className="number">{to_offset}</Table.Td>
                <Table.Td>{acknowledged_by}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {missing.length === MISSING_SHOWN_MAX && (
        <Text fz="sm">Only the first {MISSING_SHOWN_MAX} ranges are listed.</Text>
      )}
      {others > 0 && <Text fz="sm">And {others} more partitions.</Text>}
    </Alert>
  );
}
