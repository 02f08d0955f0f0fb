"use client";

import {
  Alert,
  Button,
  Code,
  Drawer,
  Group,
  ScrollArea,
  SegmentedControl,
  Stack,
  Table,
  Text,
  Title,
} from "@mantine/core";
import type { KafkaRecord, RecordBytes } from "@millrace/contract";
import { RECORD_BYTES_MAX } from "@millrace/domain";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo, useState } from "react";
import { messageOf, useTRPCClient } from "../api/client.tsx";
import { bytes, int64 } from "../format/quantity.ts";
import { clockTime } from "../format/time.ts";
import { CopyIcon } from "../shell/copy-icon.tsx";
import { indentedJson } from "./json-text.ts";
import { copyObstacle } from "./produce-draft.ts";
import { HEX_BYTES_MAX, hexDump, previewOf, rawBytes } from "./record-bytes.ts";
import { Tombstone } from "./record-table.tsx";
import type { TopicAddress } from "./use-records.ts";

interface RecordDrawerProps {
  address: TopicAddress;
  /** The drawer is closed without one. */
  record: KafkaRecord | undefined;
  onClose: () => void;
  /** Produces a record like this one; absent where that is not allowed. */
  onCopy: ((record: KafkaRecord) => void) | undefined;
}

/** One record, whole. */
export function RecordDrawer({ address, record, onClose, onCopy }: RecordDrawerProps) {
  return (
    <Drawer
      opened={record !== undefined}
      onClose={onClose}
      position="right"
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
      title={record && `Partition ${record.partition}, offset ${int64(record.offset)}`}
    >
      {record && (
        <RecordDetail
          key={`${record.partition}:${record.offset}`}
          address={address}
          record={record}
          onCopy={onCopy}
        />
      )}
    </Drawer>
  );
}

const TIMESTAMP_TYPES = {
  create_time: "set by the producer",
  log_append_time: "set by the broker",
} as const;

export function RecordDetail(props: Omit<RecordDrawerProps, "onClose"> & { record: KafkaRecord }) {
  const { address, onCopy } = props;
  const whole = useWholeRecord(address, props.record);
  const record = whole.loaded ?? props.record;
  const obstacle = copyObstacle(record);
  const { timestamp_ms, timestamp_type, size_bytes, key, value, headers } = record;
  return (
    <Stack gap="lg">
      <Table verticalSpacing={4} highlightOnHover={false} aria-label="Record" variant="vertical">
        <Table.Tbody>
          <Fact name="Timestamp">
            {clockTime(timestamp_ms)}{" "}
            <span className="quiet">
              ({timestamp_ms} ms, {TIMESTAMP_TYPES[timestamp_type]})
            </span>
          </Fact>
          <Fact name="Size">{bytes(size_bytes)}</Fact>
        </Table.Tbody>
      </Table>
      <Part title="Key" bytes={key} absent={<Quiet text="The record has no key." />} />
      <Part title="Value" bytes={value} absent={<Tombstone />} />
      <Headers headers={headers} />
      <Rest record={record} whole={whole} />
      {onCopy && (
        <Group gap="sm">
          <Button
            variant="default"
            disabled={obstacle !== undefined}
            onClick={() => onCopy(record)}
          >
            Produce a copy…
          </Button>
          {obstacle && <Quiet text={obstacle} />}
        </Group>
      )}
    </Stack>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <Table.Tr>
      <Table.Th w={110}>{name}</Table.Th>
      <Table.Td className="number">{children}</Table.Td>
    </Table.Tr>
  );
}

/** A record that the list has cut is read again, whole, when somebody asks for it. */
function useWholeRecord({ clusterId, topic }: TopicAddress, { partition, offset }: KafkaRecord) {
  const client = useTRPCClient();
  const [wanted, setWanted] = useState(false);
  const { data, error, isFetching } = useQuery({
    queryKey: ["record", clusterId, topic, partition, offset],
    queryFn: ({ signal }) =>
      client.record.list.query(
        {
          cluster_id: clusterId,
          topic_name: topic,
          partition: String(partition),
          offset,
          limit: 1,
          max_bytes: RECORD_BYTES_MAX,
          value_bytes_max: RECORD_BYTES_MAX,
        },
        { signal },
      ),
    enabled: wanted,
    gcTime: 0,
  });
  const found = data?.records[0];
  const loaded = found?.offset === offset ? found : undefined;
  const gone = data !== undefined && loaded === undefined;
  return { loaded, gone, error, isFetching, load: () => setWanted(true) };
}

/** What is not shown yet, and why it cannot be loaded. */
function Rest(props: { record: KafkaRecord; whole: ReturnType<typeof useWholeRecord> }) {
  const { record, whole } = props;
  const { key, value, headers } = record;
  const cut = [key, value, ...headers.map((each) => each.value)].find((each) => each?.truncated);
  return (
    <Stack gap="xs">
      {cut && (
        <Group gap="sm">
          <Text fz="sm">The first part of {bytes(cut.bytes)} is shown.</Text>
          <Button
            size="compact-sm"
            variant="default"
            loading={whole.isFetching}
            onClick={whole.load}
          >
            Load all
          </Button>
        </Group>
      )}
      {whole.error && (
        <Alert color="red" role="alert">
          {messageOf(whole.error)}
        </Alert>
      )}
      {whole.gone && (
        <Alert color="yellow" role="alert">
          The record is gone: it was deleted by retention or compaction.
        </Alert>
      )}
    </Stack>
  );
}

type View = "json" | "text" | "hex" | "base64";

interface PartProps {
  title: string;
  bytes: RecordBytes | null;
  absent: ReactNode;
}

function Part({ title, bytes: given, absent }: PartProps) {
  const text = given?.encoding === "text" ? given.data : undefined;
  const json = useMemo(() => (text === undefined ? undefined : indentedJson(text)), [text]);
  const views: { value: View; label: string }[] = [
    ...(json === undefined ? [] : [{ value: "json" as const, label: "JSON" }]),
    ...(given?.encoding === "text" ? [{ value: "text" as const, label: "Text" }] : []),
    { value: "hex", label: "Hex" },
    ...(given?.encoding === "base64" ? [{ value: "base64" as const, label: "Base64" }] : []),
  ];
  const [chosen, setChosen] = useState<View>();
  const view = views.find(({ value }) => value === chosen)?.value ?? views[0]?.value ?? "hex";
  const shown = given === null ? "" : textOf(given, view, json);
  return (
    <section aria-label={title}>
      <Group justify="space-between" mb={6}>
        <Group gap="xs">
          <Title order={3} fz="sm">
            {title}
          </Title>
          {given && <Quiet text={bytes(given.bytes)} />}
        </Group>
        {given && given.bytes > 0 && (
          <Group gap="xs">
            <SegmentedControl
              size="xs"
              aria-label={`View of the ${title.toLowerCase()}`}
              value={view}
              onChange={(value) => setChosen(value as View)}
              data={views}
            />
            <CopyIcon text={shown} label={`Copy ${title.toLowerCase()}`} />
          </Group>
        )}
      </Group>
      {given === null && absent}
      {given?.bytes === 0 && <Quiet text="Empty: 0 bytes." />}
      {given !== null && given.bytes > 0 && (
        <ScrollArea.Autosize mah="45vh" type="auto" viewportProps={{ tabIndex: 0 }}>
          <Code
            block
            data-part={title.toLowerCase()}
            style={{
              fontVariantLigatures: "none",
              ...(view !== "hex" && { whiteSpace: "pre-wrap", overflowWrap: "anywhere" }),
            }}
          >
            {shown}
          </Code>
        </ScrollArea.Autosize>
      )}
      {view === "hex" && given !== null && given.bytes > HEX_BYTES_MAX && (
        <Quiet text={`The hex view shows the first ${bytes(HEX_BYTES_MAX)}.`} />
      )}
    </section>
  );
}

function textOf(given: RecordBytes, view: View, json: string | undefined): string {
  if (view === "json") return json ?? given.data;
  return view === "hex" ? hexDump(rawBytes(given)) : given.data;
}

const HEADER_CELL = { overflowWrap: "anywhere", unicodeBidi: "isolate" } as const;

function Headers({ headers }: { headers: KafkaRecord["headers"] }) {
  return (
    <section aria-label="Headers">
      <Title order={3} fz="sm" mb={6}>
        Headers
      </Title>
      {headers.length === 0 && <Quiet text="The record has no headers." />}
      {headers.length > 0 && (
        <Table verticalSpacing={4} highlightOnHover={false} layout="fixed">
          <Table.Thead>
            <Table.Tr>
              <Table.Th w="35%">Name</Table.Th>
              <Table.Th>Value</Table.Th>
              <Table.Th w={50} aria-label="Actions" />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {headers.map(({ name, value }, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: names may repeat, and the order is fixed
              <Table.Tr key={index}>
                <Table.Td ff="monospace" fz="xs" style={HEADER_CELL}>
                  {name}
                </Table.Td>
                <Table.Td ff="monospace" fz="xs" style={HEADER_CELL}>
                  {value === null ? <Quiet text="null" /> : previewOf(value)}
                </Table.Td>
                <Table.Td>
                  {value !== null && (
                    <CopyIcon text={value.data} label={`Copy value of header ${name}`} />
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </section>
  );
}

function Quiet({ text }: { text: string }) {
  return (
    <Text fz="sm" className="quiet">
      {text}
    </Text>
  );
}
