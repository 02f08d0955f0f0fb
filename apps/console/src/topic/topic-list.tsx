"use client";

import { ActionIcon, Anchor, Button, Card, Group, Skeleton, Stack, Table } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Topic } from "@millrace/contract";
import { IconPencil, IconPlus, IconTrash } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import Link from "next/link";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { useLastError } from "../api/last-error.ts";
import { BrokerDown, useBrokerDown } from "../cluster/broker-down.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { ChangeTopicDialog } from "./change-topic-dialog.tsx";
import { CreateTopicDialog } from "./create-topic-dialog.tsx";
import { DeleteTopicDialog } from "./delete-topic-dialog.tsx";

const LIST_POLL_MS = 5_000;

/** A cluster's topics, with dialogs to create, edit and delete one. */
export function TopicList({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const [creating, dialog] = useDisclosure(false);
  const [deleting, setDeleting] = useState<string>();
  const [changing, setChanging] = useState<string>();
  const mayWrite = useAllowed("topic:write");
  const down = useBrokerDown(clusterId);
  const query = useInfiniteQuery(
    trpc.topic.list.infiniteQueryOptions(
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
  const topics = data?.pages.flatMap((page) => page.items) ?? [];
  const create = mayWrite && (
    <Button leftSection={<IconPlus size={16} />} onClick={dialog.open}>
      Create topic
    </Button>
  );
  if (down) return <BrokerDown what="Topics" />;
  return (
    <Stack gap="md">
      {topics.length > 0 && mayWrite && <Group justify="flex-end">{create}</Group>}
      {error != null && <ProblemAlert error={error} title="Cannot load the topics" />}
      {isPending && error == null && <Skeleton h={120} radius="md" />}
      {data && topics.length === 0 && (
        <Empty
          title="No topics yet"
          text="Create a topic here, or let a client create it by writing to it."
        >
          {create}
        </Empty>
      )}
      {topics.length > 0 && (
        <TopicTable
          clusterId={clusterId}
          topics={topics}
          mayWrite={mayWrite}
          onChange={setChanging}
          onDelete={setDeleting}
        />
      )}
      {hasNextPage && <ShowMore loading={isFetchingNextPage} onClick={() => fetchNextPage()} />}
      <CreateTopicDialog clusterId={clusterId} opened={creating} onClose={dialog.close} />
      <DeleteTopicDialog
        clusterId={clusterId}
        name={deleting}
        onClose={() => setDeleting(undefined)}
      />
      <ChangeTopicDialog
        clusterId={clusterId}
        name={changing}
        onClose={() => setChanging(undefined)}
      />
    </Stack>
  );
}

interface TopicTableProps {
  clusterId: string;
  topics: readonly Topic[];
  mayWrite: boolean;
  onChange: (name: string) => void;
  onDelete: (name: string) => void;
}

function TopicTable({ clusterId, topics, mayWrite, onChange, onDelete }: TopicTableProps) {
  return (
    <Card padding={0}>
      <Table horizontalSpacing="lg">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th ta="right">Partitions</Table.Th>
            {mayWrite && <Table.Th w={110} aria-label="Actions" />}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {topics.map((topic) => (
            <Table.Tr key={topic.name}>
              <Table.Td>
                <Anchor
                  component={Link}
                  href={`/clusters/${clusterId}/topics/${encodeURIComponent(topic.name)}`}
                  ff="monospace"
                  fz="sm"
                  style={{ overflowWrap: "anywhere" }}
                >
                  {topic.name}
                </Anchor>
              </Table.Td>
              <Table.Td ta="right" className="number">
                {topic.partitions}
              </Table.Td>
              {mayWrite && (
                <Table.Td>
                  <Group gap={4} wrap="nowrap" justify="flex-end">
                    <ActionIcon
                      variant="subtle"
                      color="gray"
                      aria-label={`Edit topic ${topic.name}`}
                      onClick={() => onChange(topic.name)}
                    >
                      <IconPencil size={16} />
                    </ActionIcon>
                    <ActionIcon
                      variant="subtle"
                      color="red"
                      aria-label={`Delete topic ${topic.name}`}
                      onClick={() => onDelete(topic.name)}
                    >
                      <IconTrash size={16} />
                    </ActionIcon>
                  </Group>
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}
