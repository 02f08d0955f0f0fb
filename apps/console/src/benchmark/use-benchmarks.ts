"use client";

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { isDone } from "./benchmark-words.ts";

/** The load is sampled once a second. */
const SAMPLES_POLL_MS = 1_000;
const LIST_POLL_MS = { running: 1_000, idle: 5_000 };
const PAGE_SIZE = 20;

/** A benchmark with its samples, as they come. */
export function useBenchmark(clusterId: string, benchmarkId: string | undefined) {
  const trpc = useTRPC();
  return useQuery(
    trpc.benchmark.get.queryOptions(
      { cluster_id: clusterId, benchmark_id: benchmarkId ?? "" },
      {
        enabled: benchmarkId !== undefined,
        refetchInterval: ({ state }) =>
          state.data && isDone(state.data) ? false : SAMPLES_POLL_MS,
      },
    ),
  );
}

/** A cluster's benchmarks, newest first. */
export function useBenchmarks(clusterId: string) {
  const trpc = useTRPC();
  return useInfiniteQuery(
    trpc.benchmark.list.infiniteQueryOptions(
      { cluster_id: clusterId, page_size: PAGE_SIZE },
      {
        getNextPageParam: (page) => page.next_page_token,
        refetchInterval: ({ state }) => {
          const newest = state.data?.pages[0]?.items[0];
          return newest && !isDone(newest) ? LIST_POLL_MS.running : LIST_POLL_MS.idle;
        },
      },
    ),
  );
}
