"use client";

import {
  Badge,
  Card,
  Collapse,
  Group,
  Stack,
  Table,
  Text,
  Title,
  UnstyledButton,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { MeasuredClient } from "@millrace/contract";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ago } from "../format/time.ts";
import { WideTable } from "../shell/wide-table.tsx";

/** An answer may have megabytes, and clients push every five minutes by default. */
const POLL_MS = 30_000;
/** Values of one client that are listed. */
const SHOWN_MAX = 500;

/** The metrics that clients pushed last. Nothing if no client pushes any. */
export function ClientMetrics({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const { data } = useQuery(
    trpc.clientMetrics.list.queryOptions(
      { cluster_id: clusterId },
      { refetchInterval: POLL_MS, retry: false },
    ),
  );
  if (data === undefined || data.items.length === 0) return null;
  return (
    <Stack gap="xs" component="section" aria-label="Client metrics">
      <Title order={2} fz="h4">
        Client metrics
      </Title>
      {data.items.map((client) => (
        <ClientCard key={client.client_instance_id} client={client} />
      ))}
      {data.truncated && (
        <Text fz="sm" className="quiet">
          Some clients or metrics are not shown. To list them, use the API with a filter.
        </Text>
      )}
    </Stack>
  );
}

function ClientCard({ client }: { client: MeasuredClient }) {
  const [opened, { toggle }] = useDisclosure(false);
  const Chevron = opened ? IconChevronDown : IconChevronRight;
  const software = [client.software_name, client.software_version].filter(Boolean).join(" ");
  return (
    <Card padding="md">
      <UnstyledButton onClick={toggle} aria-expanded={opened} w="100%">
        <Group justify="space-between" gap="xs">
          <Group gap="sm">
            <Group gap="sm" wrap="nowrap">
              <Chevron size={16} style={{ flex: "none" }} />
              <Text ff="monospace" fz="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
                {nameOf(client)}
              </Text>
            </Group>
            {client.terminating && (
              <Badge variant="default" tt="none" fw={500}>
                stopped
              </Badge>
            )}
            <Text fz="sm" className="quiet">
              {software}
            </Text>
          </Group>
          <Group gap="xl">
            <Text fz="sm" className="quiet">
              {client.address}
            </Text>
            <Text fz="sm" className="quiet">
              Pushed {ago(client.pushed_at)}
            </Text>
          </Group>
        </Group>
      </UnstyledButton>
      <Collapse expanded={opened}>{opened && <MetricsTable client={client} />}</Collapse>
    </Card>
  );
}

export function MetricsTable({ client }: { client: MeasuredClient }) {
  return (
    <>
      <WideTable label={`Metrics of ${nameOf(client)}`} minWidth={560}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Metric</Table.Th>
            <Table.Th>Labels</Table.Th>
            <Table.Th ta="right">Value</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {client.metrics.slice(0, SHOWN_MAX).map((metric) => (
            <Table.Tr key={JSON.stringify([metric.name, metric.labels])}>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{metric.name}</Table.Td>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{labelsText(metric.labels)}</Table.Td>
              <Table.Td ta="right" className="number">
                {valueText(metric)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </WideTable>
      {client.metrics.length > SHOWN_MAX && (
        <Text fz="sm" className="quiet" mt="xs">
          The first {SHOWN_MAX} of {client.metrics.length.toLocaleString("en-US")} values are shown.
        </Text>
      )}
    </>
  );
}

function nameOf(client: MeasuredClient): string {
  return client.client_id === "" ? "(no client ID)" : client.client_id;
}

/** The value; of a histogram, how many values it has and their sum. */
function valueText({ value, count }: MeasuredClient["metrics"][number]): string {
  const number = value === null ? "–" : value.toLocaleString("en-US");
  return count === null ? number : `count ${count.toLocaleString("en-US")}, sum ${number}`;
}

function labelsText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}
