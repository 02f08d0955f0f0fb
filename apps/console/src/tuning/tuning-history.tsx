"use client";

import { Badge, Button, Card, Group, Skeleton, Stack, Table, Text, Title } from "@mantine/core";
import type { TuningChange } from "@millrace/contract";
import {
  IconAlertTriangle,
  IconCheck,
  IconClock,
  IconKey,
  IconReplace,
  IconUser,
} from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ChangeLine } from "./confirm-change.tsx";

const HISTORY_POLL_MS = 5_000;
const PAGE_SIZE = 10;

/** Tuning changes with author, values and result; newest first. */
export function TuningHistory(props: { clusterId: string; title?: string }) {
  const { clusterId, title = "History" } = props;
  const trpc = useTRPC();
  const { data, error, isPending, fetchNextPage, hasNextPage, isFetchingNextPage } =
    useInfiniteQuery(
      trpc.tuning.history.infiniteQueryOptions(
        { cluster_id: clusterId, page_size: PAGE_SIZE },
        { getNextPageParam: (page) => page.next_page_token, refetchInterval: HISTORY_POLL_MS },
      ),
    );
  const changes = data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Card component="section" aria-label={title} padding={0}>
      <Title order={2} fz="h4" px="lg" py="md">
        {title}
      </Title>
      {error && <ProblemAlert error={error} title="Cannot load the history" />}
      {isPending && <Skeleton h={80} />}
      {data && changes.length === 0 && (
        <Text fz="sm" className="quiet" px="lg" pb="lg">
          No changes yet. The cluster uses the defaults of its size.
        </Text>
      )}
      {changes.length > 0 && <HistoryTable changes={changes} />}
      {hasNextPage && (
        <Group justify="center" p="md">
          <Button variant="default" loading={isFetchingNextPage} onClick={() => fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
    </Card>
  );
}

export function HistoryTable({ changes }: { changes: TuningChange[] }) {
  return (
    <Table.ScrollContainer
      minWidth={760}
      scrollAreaProps={{
        viewportProps: { tabIndex: 0, role: "region", "aria-label": "History of changes" },
      }}
    >
      <Table horizontalSpacing="lg">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>When</Table.Th>
            <Table.Th>Who</Table.Th>
            <Table.Th>What</Table.Th>
            <Table.Th>Result</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {changes.map((change) => (
            <HistoryRow key={change.id} change={change} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function HistoryRow({ change }: { change: TuningChange }) {
  const { principal } = change;
  const [Icon, kind] =
    principal.kind === "user" ? ([IconUser, "user"] as const) : ([IconKey, "API key"] as const);
  return (
    <Table.Tr data-history={change.version}>
      <Table.Td>
        <Text fz="sm" title={moment(change.created_at)} style={{ whiteSpace: "nowrap" }}>
          {ago(change.created_at)}
        </Text>
      </Table.Td>
      <Table.Td>
        <Group gap={6} wrap="nowrap">
          <Icon size={16} role="img" aria-label={kind} />
          <Text fz="sm">{principal.name || principal.id}</Text>
        </Group>
      </Table.Td>
      <Table.Td>
        <Stack gap={4}>
          {change.changes.map(({ field, from, to, to_default }) => (
            <ChangeLine key={field} change={{ knob: field, from, to, toDefault: to_default }} />
          ))}
        </Stack>
      </Table.Td>
      <Table.Td>
        <ResultBadge change={change} />
      </Table.Td>
    </Table.Tr>
  );
}

const RESULTS = {
  applied: ["green", IconCheck, "Applied"],
  pending: ["orange", IconClock, "Pending"],
  refused: ["red", IconAlertTriangle, "Rejected"],
  superseded: ["gray", IconReplace, "Superseded"],
} as const;

/** What became of a change, as a word, a sign and a colour. */
function ResultBadge({ change: { result, problem } }: { change: TuningChange }) {
  const [color, Icon, word] = RESULTS[result];
  return (
    <Stack gap={4} align="flex-start">
      <Badge
        variant="outline"
        color={color}
        c="inherit"
        tt="none"
        fw={500}
        leftSection={<Icon size={12} />}
        data-result={result}
      >
        {word}
      </Badge>
      {problem && (
        <Text fz="xs" className="quiet" maw={260}>
          {problem}
        </Text>
      )}
    </Stack>
  );
}
