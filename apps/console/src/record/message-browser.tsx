"use client";

import { Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import type { KafkaRecord, RecordPage } from "@millrace/contract";
import { isInternalTopic, RECORD_PARTITIONS_MAX } from "@millrace/domain";
import { IconPlayerPlay, IconPlus, IconRefresh } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearchParams } from "next/navigation";
import { useState } from "react";
import { bytes } from "../format/quantity.ts";
import { useAllowed, useDenied } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ProduceDialog } from "./produce-dialog.tsx";
import { draftOfRecord, NEW_RECORD, type ProduceDraft } from "./produce-draft.ts";
import { RecordDrawer } from "./record-drawer.tsx";
import { RecordFilters } from "./record-filters.tsx";
import {
  draftOf,
  hasFilter,
  type RecordDraft,
  searchOf,
  withinPartitions,
} from "./record-query.ts";
import { placeOf, RecordTable } from "./record-table.tsx";
import { TailBar } from "./tail-bar.tsx";
import { ROWS_MAX, recordsKey, type TopicAddress, useLiveTail, useRecords } from "./use-records.ts";

interface MessageBrowserProps extends TopicAddress {
  /** How many the topic has, where that is known. */
  partitionCount: number | undefined;
}

/** A topic's records: read, searched, followed and produced. */
export function MessageBrowser({ partitionCount, ...address }: MessageBrowserProps) {
  const queryClient = useQueryClient();
  const mayWrite = useAllowed("record:write") && !isInternalTopic(address.topic);
  const denied = useDenied("record:read");
  const [draft, apply] = useDraft();
  const asked = withinPartitions(draft, partitionCount ?? 0);
  const view = useRecords(address, asked, !denied);
  const { tail, live, start, stop } = useLiveTail();
  const [opened, setOpened] = useState<KafkaRecord>();
  const [produced, setProduced] = useState<ProduceDraft>();

  const pages = view.data?.pages ?? [];
  const last = pages.at(-1);
  const read = pages.flatMap((page) => page.records);
  const partitions = partitionsOf(partitionCount, last);
  const shown = tail === undefined ? read : tail.records;
  const refresh = () => queryClient.resetQueries({ queryKey: recordsKey(address) });

  function onApply(next: RecordDraft) {
    stop();
    apply(next);
    if (searchOf(next) === searchOf(draft)) void refresh();
  }

  if (denied) return <NoPermission />;
  const produceButton = mayWrite && (
    <Button size="xs" leftSection={<IconPlus size={14} />} onClick={() => setProduced(NEW_RECORD)}>
      Produce record
    </Button>
  );
  return (
    <Stack gap="md">
      <RecordFilters
        applied={draft}
        partitions={partitions}
        busy={view.isFetching && tail === undefined}
        onApply={onApply}
      />
      {tail ? (
        <TailBar
          tail={tail}
          onPause={() => live?.pause()}
          onResume={() => live?.resume()}
          onStop={() => {
            stop();
            void refresh();
          }}
        >
          {produceButton}
        </TailBar>
      ) : (
        <Group justify="space-between">
          <Summary page={last} records={read.length} />
          <Group gap="xs">
            <Button
              size="xs"
              variant="default"
              leftSection={<IconRefresh size={14} />}
              onClick={() => void refresh()}
            >
              Refresh
            </Button>
            <Button
              size="xs"
              variant="default"
              leftSection={<IconPlayerPlay size={14} />}
              onClick={() => start(address, asked, tailCursor(draft, last))}
            >
              Live tail
            </Button>
            {produceButton}
          </Group>
        </Group>
      )}
      {asked !== draft && <ManyPartitions count={partitionCount ?? 0} />}
      {tail === undefined && view.error && (
        <ProblemAlert error={view.error} title="Cannot read the records" />
      )}
      {tail === undefined && view.isPending && !view.error && <Skeleton h={240} radius="md" />}
      {shown.length > 0 && (
        <RecordTable records={shown} opened={opened && placeOf(opened)} onOpen={setOpened} />
      )}
      {tail !== undefined && shown.length === 0 && tail.state !== "failed" && (
        <Empty title="Waiting for records" text={waitingText(draft, tail.scanned)} />
      )}
      {tail === undefined && last !== undefined && read.length === 0 && (
        <NoRecords draft={draft} page={last} />
      )}
      {tail === undefined && view.hasNextPage && read.length < ROWS_MAX && (
        <Button
          variant="default"
          loading={view.isFetchingNextPage}
          onClick={() => void view.fetchNextPage()}
        >
          {hasFilter(draft) ? "Search further" : "Show more"}
        </Button>
      )}
      <RecordDrawer
        address={address}
        record={opened}
        onClose={() => setOpened(undefined)}
        onCopy={mayWrite ? (record) => setProduced(draftOfRecord(record)) : undefined}
      />
      <ProduceDialog
        address={address}
        partitions={partitions}
        initial={produced}
        onClose={() => setProduced(undefined)}
        onProduced={() => {
          if (tail === undefined) void refresh();
        }}
      />
    </Stack>
  );
}

function ManyPartitions({ count }: { count: number }) {
  return (
    <Text fz="sm" className="quiet">
      Shows partitions 0 to {RECORD_PARTITIONS_MAX - 1} of {count.toLocaleString("en")}. Choose a
      partition to see another one.
    </Text>
  );
}

function NoPermission() {
  return (
    <Empty
      title="No permission to read records"
      text="Your role shows topics and metrics, not the records in them. Ask an owner of the organization for the role member."
    />
  );
}

/** The view is part of the page's address, so that it can be shared and survives a reload. */
function useDraft(): [RecordDraft, (draft: RecordDraft) => void] {
  const router = useRouter();
  const search = useSearchParams();
  const apply = (draft: RecordDraft) => router.replace(searchOf(draft) || "?", { scroll: false });
  return [draftOf(search), apply];
}

/** A tail goes on after the newest records that are shown; of another view, it starts at the end. */
function tailCursor(draft: RecordDraft, page: RecordPage | undefined): string | undefined {
  return draft.start === "newest" ? (page?.cursor ?? undefined) : undefined;
}

function partitionsOf(known: number | undefined, page: RecordPage | undefined): string[] {
  const answered = page?.partitions.map(({ partition }) => partition + 1) ?? [];
  const count = known ?? answered.reduce((most, each) => Math.max(most, each), 0);
  return Array.from({ length: count }, (_, index) => String(index));
}

function Summary({ page, records }: { page: RecordPage | undefined; records: number }) {
  if (page === undefined) return <span />;
  return (
    <Text fz="sm" className="quiet number" data-summary>
      {records.toLocaleString("en")} {records === 1 ? "record" : "records"} ·{" "}
      {page.scanned_records.toLocaleString("en")} scanned ({bytes(page.scanned_bytes)})
      {records >= ROWS_MAX && ` · at most ${ROWS_MAX.toLocaleString("en")} are shown`}
    </Text>
  );
}

function waitingText(draft: RecordDraft, scanned: number): string {
  if (!hasFilter(draft)) return "Records appear here as they are produced.";
  return `Matching records appear here as they are produced. ${scanned.toLocaleString("en")} scanned.`;
}

function NoRecords({ draft, page }: { draft: RecordDraft; page: RecordPage }) {
  if (!page.end) {
    const scanned = `${page.scanned_records.toLocaleString("en")} records were scanned in the time of one search.`;
    const remedy =
      draft.start === "newest" ? " Start at a time or an offset to search further." : "";
    return <Empty title="No match yet" text={scanned + remedy} />;
  }
  const { title, text } = nothingFound(draft);
  return <Empty title={title} text={text} />;
}

/** Why a search that reached the end found nothing, and what to do. */
function nothingFound(draft: RecordDraft): { title: string; text: string } {
  const isPart = draft.start === "offset" || draft.start === "time";
  if (hasFilter(draft)) {
    const earlier = isPart ? ", or start at an earlier offset or time" : "";
    return { title: "No matching records", text: `Change the filters${earlier}.` };
  }
  if (isPart) {
    return {
      title: "No records",
      text: "There are no records from here on. Start at an earlier offset or time.",
    };
  }
  const where = draft.partition === "" ? "topic" : "partition";
  return {
    title: "No records",
    text: `This ${where} has no records. Produce one, or start a live tail to see new ones.`,
  };
}
