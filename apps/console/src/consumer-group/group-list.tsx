"use client";

import {
  Anchor,
  Badge,
  Card,
  Collapse,
  Group,
  Skeleton,
  Stack,
  Table,
  Text,
  UnstyledButton,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ConsumerGroup } from "@millrace/contract";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import Link from "next/link";
import { useTRPC } from "../api/client.tsx";
import { useLastError } from "../api/last-error.ts";
import { UNCOMMITTED_LAG } from "../charts/metric-charts.tsx";
import { BrokerDown, useBrokerDown } from "../cluster/broker-down.tsx";
import { int64 } from "../format/quantity.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";

const LIST_POLL_MS = 3_000;

/** A cluster's consumer groups with their lag. Live. */
export function GroupList({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const down = useBrokerDown(clusterId);
  const query = useInfiniteQuery(
    trpc.consumerGroup.list.infiniteQueryOptions(
      { cluster_id: clusterId },
      {
        getNextPageParam: (page) => page.next_page_token,
        refetchInterval: LIST_POLL_MS,
        // The next poll is the retry.
        retry: false,
        enabled: !down,
      },
    ),
  );
  const { data, isPending, fetchNextPage, hasNextPage, isFetchingNextPage } = query;
  const error = useLastError(query);
  const groups = data?.pages.flatMap((page) => page.items) ?? [];
  if (down) return <BrokerDown what="Consumer groups" />;
  return (
    <Stack gap="md">
      {error != null && <ProblemAlert error={error} title="Cannot load the consumer groups" />}
      {isPending && error == null && <Skeleton h={120} radius="md" />}
      {data && groups.length === 0 && (
        <Empty
          title="No consumer groups yet"
          text="A group appears here when a consumer joins it or commits an offset."
        />
      )}
      {groups.map((group) => (
        <GroupCard key={group.group_id} clusterId={clusterId} group={group} />
      ))}
      {hasNextPage && <ShowMore loading={isFetchingNextPage} onClick={() => fetchNextPage()} />}
    </Stack>
  );
}

function GroupCard({ clusterId, group }: { clusterId: string; group: ConsumerGroup }) {
  const [opened, { toggle }] = useDisclosure(false);
  const Chevron = opened ? IconChevronDown : IconChevronRight;
  const isShare = group.protocol_type === "share";
  return (
    <Card padding="md">
      <UnstyledButton onClick={toggle} aria-expanded={opened} w="100%">
        <Group justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Chevron size={16} />
            <Text ff="monospace" fz="sm" fw={600}>
              {group.group_id}
            </Text>
            <Badge variant="default" tt="none" fw={500}>
              {group.state}
            </Badge>
            {isShare && (
              <Badge variant="default" tt="none" fw={500}>
                share group
              </Badge>
            )}
            {group.idle && (
              <Text fz="sm" className="quiet">
                idle: no active members
              </Text>
            )}
          </Group>
          <Group gap="xl" wrap="nowrap">
            <Text fz="sm" className="quiet">
              {group.members} {group.members === 1 ? "member" : "members"}
            </Text>
            {!isShare && (
              <Text fz="sm" className="number" data-lag={group.group_id}>
                lag <b>{int64(group.total_lag)}</b>
              </Text>
            )}
          </Group>
        </Group>
      </UnstyledButton>
      <Collapse expanded={opened}>
        {isShare ? (
          <Text fz="sm" className="quiet" mt="md">
            Share groups do not commit offsets. Use kafka-share-groups to see how far this group has
            read.
          </Text>
        ) : (
          <Anchor
            component={Link}
            href={`/clusters/${clusterId}/catch-up?group=${encodeURIComponent(group.group_id)}`}
            fz="sm"
            display="inline-block"
            mt="md"
          >
            Catch-up details
          </Anchor>
        )}
        {opened && group.members > 0 && <Members clusterId={clusterId} groupId={group.group_id} />}
        {!isShare && <Offsets group={group} />}
      </Collapse>
    </Card>
  );
}

/** What the group has committed, and what there is to read. */
function Offsets({ group }: { group: ConsumerGroup }) {
  return (
    <>
      <Table mt="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Partition</Table.Th>
            <Table.Th ta="right">Committed</Table.Th>
            <Table.Th ta="right">Start</Table.Th>
            <Table.Th ta="right">End</Table.Th>
            <Table.Th ta="right">Lag</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {group.partitions.map((one) => (
            <Table.Tr key={`${one.topic}-${one.partition}`} className="number">
              <Table.Td ff="monospace">
                {one.topic}-{one.partition}
              </Table.Td>
              <Table.Td ta="right">
                {one.committed_offset === null ? "none" : int64(one.committed_offset)}
                {one.out_of_range && " (out of range)"}
              </Table.Td>
              <Table.Td ta="right">{offsetOf(one.start_offset)}</Table.Td>
              <Table.Td ta="right">{offsetOf(one.end_offset)}</Table.Td>
              <Table.Td ta="right">{offsetOf(one.lag)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {group.partitions.some(({ committed_offset }) => committed_offset === null) && (
        <Text fz="xs" className="quiet" mt="xs">
          {UNCOMMITTED_LAG}
        </Text>
      )}
    </>
  );
}

/** Who reads, and from where. */
function Members({ clusterId, groupId }: { clusterId: string; groupId: string }) {
  const trpc = useTRPC();
  const query = useQuery(
    trpc.consumerGroup.get.queryOptions(
      { cluster_id: clusterId, group_id: groupId },
      { refetchInterval: LIST_POLL_MS, retry: false },
    ),
  );
  const error = useLastError(query);
  if (error != null) return <ProblemAlert error={error} title="Cannot load the group's members" />;
  if (!query.data) return <Skeleton h={60} mt="xs" radius="md" />;
  return (
    <Table mt="xs">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Client</Table.Th>
          <Table.Th>Member</Table.Th>
          <Table.Th>Host</Table.Th>
          <Table.Th ta="right">Partitions</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {query.data.group_members.map((member) => (
          <Table.Tr key={member.member_id}>
            <Table.Td ff="monospace">{member.client_id}</Table.Td>
            <Table.Td ff="monospace">{member.instance_id ?? member.member_id}</Table.Td>
            <Table.Td ff="monospace">{member.host}</Table.Td>
            <Table.Td ta="right" className="number">
              {member.partition_count}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

/** The API says -1 of an offline partition. */
function offsetOf(value: string): string {
  return value === "-1" ? "unknown" : int64(value);
}
