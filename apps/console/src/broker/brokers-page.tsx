"use client";

import {
  Anchor,
  Badge,
  Card,
  Group,
  Progress,
  Skeleton,
  Stack,
  Table,
  Text,
  Timeline,
  Title,
} from "@mantine/core";
import type { Broker, BrokerEvent, Cluster } from "@millrace/contract";
import { useQuery } from "@tanstack/react-query";
import Link from "next/link";
import { useTRPC } from "../api/client.tsx";
import { useLastError } from "../api/last-error.ts";
import { useCluster } from "../cluster/live.ts";
import { bytes } from "../format/quantity.ts";
import { exactMoment } from "../format/time.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import {
  contactText,
  leadersText,
  loadText,
  stateOf,
  walColor,
  walLeftText,
  walPercent,
} from "./broker-words.ts";
import { RestartButton } from "./restart-button.tsx";

const POLL_MS = 2_000;
/** The API has more; what is older is in the audit log and the operations. */
const EVENTS_SHOWN = 30;

/** The brokers of a cluster, and what happened to them. Live. */
export function BrokersPage({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const { data: cluster } = useCluster(clusterId);
  const query = useQuery(
    trpc.cluster.brokers.queryOptions(
      { cluster_id: clusterId },
      // The next poll is the retry.
      { refetchInterval: POLL_MS, retry: false },
    ),
  );
  const error = useLastError(query);
  const { data } = query;
  return (
    <Stack gap="md">
      {error != null && <ProblemAlert error={error} title="Cannot load the brokers" />}
      {(data === undefined || cluster === undefined) && error == null && (
        <Skeleton h={160} radius="md" />
      )}
      {data && cluster && (
        <>
          <BrokerCard cluster={cluster} brokers={data.brokers} />
          {cluster.spec.brokers > 1 && <Events events={data.events} />}
        </>
      )}
    </Stack>
  );
}

function BrokerCard({ cluster, brokers }: { cluster: Cluster; brokers: readonly Broker[] }) {
  const { metadata, spec, status } = cluster;
  const several = spec.brokers > 1;
  return (
    <Card component="section" aria-label="Brokers">
      <Group justify="space-between" mb="sm">
        <Text fz="sm" className="quiet">
          {several
            ? "Partitions are spread over the brokers. When one fails, the others take over."
            : "One broker has all partitions. Nothing takes over while it is down."}
        </Text>
        <Group gap="xs">
          {several && status.provider === "local" && (
            <Anchor component={Link} href={`/clusters/${metadata.id}/settings`} fz="sm">
              Change the number
            </Anchor>
          )}
          {several && <RestartButton cluster={cluster} />}
        </Group>
      </Group>
      <Table.ScrollContainer minWidth={940}>
        <BrokerTable cluster={cluster} brokers={brokers} />
      </Table.ScrollContainer>
    </Card>
  );
}

export function BrokerTable({
  cluster,
  brokers,
}: {
  cluster: Cluster;
  brokers: readonly Broker[];
}) {
  return (
    <Table verticalSpacing="xs">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Broker</Table.Th>
          <Table.Th>State</Table.Th>
          <Table.Th>Zone</Table.Th>
          <Table.Th>Partitions led</Table.Th>
          <Table.Th>Load</Table.Th>
          <Table.Th>Write-ahead log</Table.Th>
          <Table.Th>Version</Table.Th>
          <Table.Th>Last contact</Table.Th>
          <Table.Th aria-label="Actions" />
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {brokers.map((broker) => (
          <Table.Tr key={broker.broker_id}>
            <Table.Td className="number">{broker.broker_id}</Table.Td>
            <Table.Td>
              <Badge variant="dot" tt="none" c="inherit" color={stateOf(broker).color}>
                {stateOf(broker).text}
              </Badge>
            </Table.Td>
            <Table.Td>{broker.zone ?? "–"}</Table.Td>
            <Table.Td className="number">{leadersText(broker)}</Table.Td>
            <Table.Td className="number">{loadText(broker)}</Table.Td>
            <Table.Td>
              <Wal broker={broker} />
            </Table.Td>
            <Table.Td>{broker.version ?? "–"}</Table.Td>
            <Table.Td>{contactText(broker)}</Table.Td>
            <Table.Td>
              <Group justify="flex-end">
                <RestartButton cluster={cluster} brokerId={broker.broker_id} />
              </Group>
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Wal({ broker }: { broker: Broker }) {
  const percent = walPercent(broker);
  const { wal } = broker;
  const left = walLeftText(broker);
  if (percent === undefined || wal === null) return "–";
  const text = `${bytes(Number(wal.used_bytes))} of ${bytes(Number(wal.capacity_bytes))}`;
  return (
    <Stack gap={2} maw={180}>
      <Progress value={percent} color={walColor(percent)} aria-label={`Log in use: ${text}`} />
      <Text fz="xs" className="quiet">
        {text}
      </Text>
      {left !== undefined && (
        <Text fz="xs" className="quiet">
          {left}
        </Text>
      )}
      {wal.uploads_wait_for !== null && (
        <Text fz="xs" c="orange">
          Uploads wait for {wal.uploads_wait_for}
        </Text>
      )}
    </Stack>
  );
}

export function Events({ events }: { events: readonly BrokerEvent[] }) {
  return (
    <Card component="section" aria-label="Events">
      <Title order={2} fz="h5" mb="sm">
        Events
      </Title>
      {events.length === 0 && (
        <Text fz="sm" className="quiet">
          Nothing has happened to the brokers yet.
        </Text>
      )}
      <Timeline bulletSize={12} lineWidth={2}>
        {events.slice(0, EVENTS_SHOWN).map((event) => (
          <Timeline.Item key={`${event.at} ${event.kind} ${event.broker_id} ${event.text}`}>
            <Text fz="sm">{event.text}</Text>
            <Text fz="xs" className="quiet">
              {exactMoment(event.at)}
            </Text>
          </Timeline.Item>
        ))}
      </Timeline>
    </Card>
  );
}
