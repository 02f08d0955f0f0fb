"use client";

import {
  Anchor,
  Badge,
  Button,
  Card,
  Group,
  Skeleton,
  Stack,
  Table,
  Text,
  Title,
} from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import Link from "next/link";
import { useTRPC } from "../api/client.tsx";
import { latest, pointsOf } from "../charts/chart-data.ts";
import { metricColor } from "../charts/metric-colors.ts";
import { Sparkline } from "../charts/sparkline.tsx";
import { byteRate, latency } from "../format/quantity.ts";
import { ago, moment } from "../format/time.ts";
import { useAllowed } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { hasLiveFigures } from "./broker-state.ts";
import { useMetrics } from "./live.ts";
import { PhaseBadge } from "./phase-badge.tsx";

const LIST_POLL_MS = 3_000;
/** Phases with metrics. */
const MEASURED_PHASES = ["RUNNING", "UPDATING", "DEGRADED"];

/** All clusters of the organization with their current throughput. */
export function ClusterList() {
  const trpc = useTRPC();
  const { data, error, isPending, fetchNextPage, hasNextPage, isFetchingNextPage } =
    useInfiniteQuery(
      trpc.cluster.list.infiniteQueryOptions(
        {},
        { getNextPageParam: (page) => page.next_page_token, refetchInterval: LIST_POLL_MS },
      ),
    );
  const clusters = data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack gap="lg">
      <Group justify="space-between">
        <Title order={1} fz="h2">
          Clusters
        </Title>
        <CreateButton />
      </Group>
      {error && <ProblemAlert error={error} title="Cannot load the clusters" />}
      {isPending && <Skeleton h={160} radius="md" />}
      {data && clusters.length === 0 && (
        <Empty
          title="No clusters yet"
          text="Creating a cluster takes a few seconds. Any Kafka client can connect to it."
        >
          <CreateButton />
        </Empty>
      )}
      {clusters.length > 0 && <ClusterTable clusters={clusters} />}
      {hasNextPage && <ShowMore loading={isFetchingNextPage} onClick={() => fetchNextPage()} />}
    </Stack>
  );
}

function CreateButton() {
  const mayCreate = useAllowed("cluster:create");
  if (!mayCreate) return null;
  return (
    <Button component={Link} href="/clusters/new" leftSection={<IconPlus size={16} />}>
      Create cluster
    </Button>
  );
}

function ClusterTable({ clusters }: { clusters: Cluster[] }) {
  return (
    <Card padding={0}>
      <Table.ScrollContainer minWidth={820}>
        <Table horizontalSpacing="lg">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Name</Table.Th>
              <Table.Th>State</Table.Th>
              <Table.Th>In</Table.Th>
              <Table.Th>Out</Table.Th>
              <Table.Th>Produce p99</Table.Th>
              <Table.Th>Created</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {clusters.map((cluster) => (
              <ClusterRow key={cluster.metadata.id} cluster={cluster} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}

function ClusterRow({ cluster }: { cluster: Cluster }) {
  const { metadata, spec, status } = cluster;
  const mayMeasure = useAllowed("metrics:read");
  const measured = mayMeasure && MEASURED_PHASES.includes(status.phase);
  const { data } = useMetrics(metadata.id, 5, 5, { enabled: measured });
  const live = hasLiveFigures(cluster);
  const p99 = live ? latest(pointsOf(data?.series, "produce_latency_p99")) : undefined;
  return (
    <Table.Tr>
      <Table.Td>
        <Group gap="xs">
          <Anchor component={Link} href={`/clusters/${metadata.id}`} fw={600}>
            {spec.name}
          </Anchor>
          <Badge variant="default" tt="none" fw={500} miw="max-content">
            {spec.size} · {spec.region}
          </Badge>
        </Group>
      </Table.Td>
      <Table.Td>
        <PhaseBadge phase={status.phase} />
      </Table.Td>
      <Table.Td>
        <Rate
          live={live}
          points={pointsOf(data?.series, "bytes_in_rate")}
          color={metricColor("bytes_in_rate")}
        />
      </Table.Td>
      <Table.Td>
        <Rate
          live={live}
          points={pointsOf(data?.series, "bytes_out_rate")}
          color={metricColor("bytes_out_rate")}
        />
      </Table.Td>
      <Table.Td className="number">{p99 === undefined ? "–" : latency(p99)}</Table.Td>
      <Table.Td>
        <Text fz="sm" className="quiet" title={moment(metadata.created_at)}>
          {ago(metadata.created_at)}
        </Text>
      </Table.Td>
    </Table.Tr>
  );
}

function Rate(props: { points: [number, number | null][]; color: string; live: boolean }) {
  const { points, color, live } = props;
  const now = live ? latest(points) : undefined;
  return (
    <Group gap="sm" wrap="nowrap">
      <Text fz="sm" className="number" w={84}>
        {now === undefined ? "–" : byteRate(now)}
      </Text>
      <Sparkline points={points} color={color} />
    </Group>
  );
}
