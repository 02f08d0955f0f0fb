"use client";

import { Button, Card, Skeleton, Stack, Table, Text, Title, VisuallyHidden } from "@mantine/core";
import type { TuningChange } from "@millrace/contract";
import { IconAlertTriangle, IconCheck, IconClock, IconReplace } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { useAllowed } from "../session/use-allowed.ts";
import { Author } from "../shell/author.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ResultBadge, type ResultLook } from "../shell/result-badge.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { WideTable } from "../shell/wide-table.tsx";
import { ChangeLine } from "./confirm-change.tsx";
import { RevertChange } from "./revert-change.tsx";

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
  const mayWrite = useAllowed("tuning:write");
  const [reverting, setReverting] = useState<TuningChange>();
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
      {changes.length > 0 && (
        <HistoryTable changes={changes} onRevert={mayWrite ? setReverting : undefined} />
      )}
      {hasNextPage && <ShowMore loading={isFetchingNextPage} onClick={() => fetchNextPage()} />}
      {reverting && (
        <RevertChange
          clusterId={clusterId}
          change={reverting}
          onClose={() => setReverting(undefined)}
        />
      )}
    </Card>
  );
}

type OnRevert = ((change: TuningChange) => void) | undefined;

export function HistoryTable(props: { changes: TuningChange[]; onRevert?: OnRevert }) {
  const { changes, onRevert } = props;
  return (
    <WideTable label="History of changes" minWidth={760}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>When</Table.Th>
          <Table.Th>Who</Table.Th>
          <Table.Th>What</Table.Th>
          <Table.Th>Result</Table.Th>
          {onRevert && (
            <Table.Th>
              <VisuallyHidden>Action</VisuallyHidden>
            </Table.Th>
          )}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {changes.map((change) => (
          <HistoryRow key={change.id} change={change} onRevert={onRevert} />
        ))}
      </Table.Tbody>
    </WideTable>
  );
}

function HistoryRow({ change, onRevert }: { change: TuningChange; onRevert: OnRevert }) {
  const { principal, result, problem, reverts, version } = change;
  return (
    <Table.Tr data-history={change.version}>
      <Table.Td>
        <Text fz="sm" fw={600} className="number">
          #{version}
        </Text>
        <Text fz="sm" title={moment(change.created_at)} style={{ whiteSpace: "nowrap" }}>
          {ago(change.created_at)}
        </Text>
      </Table.Td>
      <Table.Td>
        <Author of={principal} />
      </Table.Td>
      <Table.Td>
        <Stack gap={4}>
          {reverts && (
            <Text fz="xs" className="quiet">
              Reverts change #{reverts.version}
            </Text>
          )}
          {change.changes.map(({ field, from, to, to_default }) => (
            <ChangeLine key={field} change={{ knob: field, from, to, toDefault: to_default }} />
          ))}
        </Stack>
      </Table.Td>
      <Table.Td>
        <ResultBadge result={result} look={RESULTS[result]} note={problem} />
      </Table.Td>
      {onRevert && (
        <Table.Td ta="right">
          <Button
            variant="default"
            size="xs"
            aria-label={`Revert change ${version}`}
            onClick={() => onRevert(change)}
          >
            Revert
          </Button>
        </Table.Td>
      )}
    </Table.Tr>
  );
}

const RESULTS = {
  applied: ["green", IconCheck, "Applied"],
  pending: ["orange", IconClock, "Pending"],
  refused: ["red", IconAlertTriangle, "Rejected"],
  superseded: ["gray", IconReplace, "Superseded"],
} as const satisfies Record<TuningChange["result"], ResultLook>;
