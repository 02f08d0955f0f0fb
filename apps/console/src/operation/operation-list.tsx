"use client";

import { Anchor, Badge, Card, Group, Skeleton, Stack, Table, Text } from "@mantine/core";
import type { Operation } from "@millrace/contract";
import { useInfiniteQuery } from "@tanstack/react-query";
import Link from "next/link";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { OPERATION_TITLES, stateText } from "./operation-words.ts";

const LIST_POLL_MS = 3_000;
const PAGE_SIZE = 20;

const COLORS: Record<Operation["phase"], string> = {
  PENDING: "gray",
  RUNNING: "blue",
  WAITING: "orange",
  SUCCEEDED: "green",
  FAILED: "red",
  CANCELLED: "gray",
};

/** A cluster's operations, newest first. */
export function OperationList({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const { data, error, isPending, fetchNextPage, hasNextPage, isFetchingNextPage } =
    useInfiniteQuery(
      trpc.operation.list.infiniteQueryOptions(
        { cluster_id: clusterId, page_size: PAGE_SIZE },
        { getNextPageParam: (page) => page.next_page_token, refetchInterval: LIST_POLL_MS },
      ),
    );
  const operations = data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack gap="md">
      {error && <ProblemAlert error={error} title="Cannot load the operations" />}
      {isPending && <Skeleton h={120} radius="md" />}
      {data && operations.length === 0 && (
        <Empty title="No operations" text="Changes of the cluster are listed here." />
      )}
      {operations.length > 0 && <OperationTable operations={operations} clusterId={clusterId} />}
      {hasNextPage && <ShowMore loading={isFetchingNextPage} onClick={() => fetchNextPage()} />}
    </Stack>
  );
}

function OperationTable(props: { operations: Operation[]; clusterId: string }) {
  const { operations, clusterId } = props;
  return (
    <Card padding={0}>
      <Table.ScrollContainer minWidth={640}>
        <Table horizontalSpacing="lg">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Operation</Table.Th>
              <Table.Th>State</Table.Th>
              <Table.Th>Step</Table.Th>
              <Table.Th>Started</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {operations.map((operation) => (
              <Table.Tr key={operation.id} data-operation={operation.kind}>
                <Table.Td>
                  <Anchor
                    component={Link}
                    href={`/clusters/${clusterId}/operations/${operation.id}`}
                    fz="sm"
                    fw={600}
                  >
                    {OPERATION_TITLES[operation.kind]}
                  </Anchor>
                </Table.Td>
                <Table.Td>
                  <Group gap="xs" wrap="nowrap">
                    <Badge
                      variant="dot"
                      color={COLORS[operation.phase]}
                      c="inherit"
                      tt="none"
                      fw={500}
                    >
                      {stateText(operation)}
                    </Badge>
                  </Group>
                </Table.Td>
                <Table.Td>
                  <Text fz="sm" className="quiet">
                    {stepText(operation)}
                  </Text>
                </Table.Td>
                <Table.Td>
                  <Text fz="sm" className="quiet" title={moment(operation.created_at)}>
                    {ago(operation.created_at)}
                  </Text>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}

/** The running step, or the one at which the operation stopped. */
function stepText({ steps, phase }: Operation): string {
  if (phase === "SUCCEEDED") return "–";
  const at = steps.find(({ state }) => state === "RUNNING" || state === "FAILED");
  return (at ?? steps.find(({ state }) => state === "PENDING"))?.title ?? "–";
}
