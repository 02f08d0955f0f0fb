"use client";

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useTRPC, useTRPCClient } from "../api/client.tsx";
import { isCoarse, liveEnd, type Range } from "../charts/chart-range.ts";

/** Brokers are read every two seconds; asking more often shows nothing new. An overview of hours or days changes slowly. */
const METRICS_POLL_MS = { live: 2_000, overview: 30_000 };
const CLUSTER_POLL_MS = { changing: 1_000, steady: 5_000 };
/** Phases that only a user's request or a failure ends. */
const STEADY_PHASES = ["RUNNING", "PAUSED", "FAILED", "PENDING_PURGE"];

/** One cluster, asked for more often while it changes. */
export function useCluster(clusterId: string) {
  const trpc = useTRPC();
  return useQuery(
    trpc.cluster.get.queryOptions(
      { cluster_id: clusterId },
      {
        refetchInterval: ({ state }) =>
          state.data === undefined || STEADY_PHASES.includes(state.data.status.phase)
            ? CLUSTER_POLL_MS.steady
            : CLUSTER_POLL_MS.changing,
      },
    ),
  );
}

interface MetricsOptions {
  /** A cluster that is being deleted is gone at any moment: it is not asked about. */
  enabled?: boolean;
  /** A fixed span in milliseconds since the epoch. */
  range?: Range | undefined;
}

/**
 * The last `minutes` of a cluster's series, live, or those of a fixed range. The live span is worked out when the
 * question is asked, so it is no part of the key: the same picture moves on instead of becoming another one.
 */
export function useMetrics(
  clusterId: string,
  minutes: number,
  stepSeconds: number,
  { enabled = true, range }: MetricsOptions = {},
) {
  const client = useTRPCClient();
  return useQuery({
    queryKey: ["metrics", clusterId, range ?? minutes, stepSeconds],
    queryFn: ({ signal }) => {
      const to = range?.to ?? liveEnd(Date.now(), stepSeconds);
      const from = range?.from ?? to - minutes * 60_000;
      return client.metrics.query.query(
        {
          cluster_id: clusterId,
          from: String(from),
          to: String(to),
          step: `${stepSeconds}s`,
        },
        { signal },
      );
    },
    enabled,
    refetchInterval: range ? false : METRICS_POLL_MS[isCoarse(stepSeconds) ? "overview" : "live"],
    placeholderData: keepPreviousData,
  });
}
