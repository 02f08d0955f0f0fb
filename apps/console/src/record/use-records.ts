"use client";

import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import { useTRPCClient } from "../api/client.tsx";
import { LiveTail, type Tail } from "./live-tail.ts";
import { filtersOf, queryOf, type RecordDraft } from "./record-query.ts";
import { streamRecords } from "./record-stream.ts";

/** Rows of a page that is read on and on; the API's largest answer twice. */
export const ROWS_MAX = 2_000;

export interface TopicAddress {
  readonly clusterId: string;
  readonly topic: string;
}

/** A view of a topic's records, page by page. Read when asked for, not again and again. */
export function useRecords(
  { clusterId, topic }: TopicAddress,
  draft: RecordDraft,
  enabled: boolean,
) {
  const client = useTRPCClient();
  return useInfiniteQuery({
    queryKey: recordsKey({ clusterId, topic }, draft),
    queryFn: ({ pageParam, signal }) =>
      client.record.list.query(
        { cluster_id: clusterId, topic_name: topic, ...queryOf(draft, pageParam) },
        { signal },
      ),
    initialPageParam: undefined as string | undefined,
    // The cursor of the newest ones leads to what is produced later, which is the live tail's work.
    getNextPageParam: (page) =>
      page.end || draft.start === "newest" ? undefined : (page.cursor ?? undefined),
    enabled,
    staleTime: Number.POSITIVE_INFINITY,
    // Records of others are not kept in memory after the page was left.
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
}

export function recordsKey({ clusterId, topic }: TopicAddress, draft?: RecordDraft) {
  return draft ? ["records", clusterId, topic, draft] : ["records", clusterId, topic];
}

/** Of each key, value and header of a tail's rows, so that they stay below some megabytes in all. */
const TAIL_VALUE_BYTES_MAX = 1024;

/** A tail of what is produced from now on, with the view's filters. */
export function useLiveTail() {
  const [live, setLive] = useState<LiveTail>();
  useEffect(() => () => live?.stop(), [live]);
  const tail = useSyncExternalStore<Tail | undefined>(
    live?.subscribe ?? nothing,
    live?.snapshot ?? nowhere,
    nowhere,
  );
  /** @param cursor of the newest records that are shown; without one, it starts at the end. */
  const start = (address: TopicAddress, draft: RecordDraft, cursor: string | undefined) => {
    const first = cursor === undefined ? { from: "latest" } : { cursor };
    const next = new LiveTail((resumed, signal) => {
      const at = resumed === undefined ? first : { cursor: resumed };
      const query = { ...filtersOf(draft), ...at, value_bytes_max: TAIL_VALUE_BYTES_MAX };
      return streamRecords({ ...address, query: query as never }, signal);
    });
    next.resume();
    setLive(next);
  };
  return { tail, live, start, stop: () => setLive(undefined) };
}

const nothing = () => () => {};
const nowhere = () => undefined;
