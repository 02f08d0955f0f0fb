"use client";

import type { OperationEvent } from "@millrace/contract";
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSubscription } from "@trpc/tanstack-react-query";
import { useEffect, useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { withEvent } from "./log-lines.ts";

/** Beside the stream of events, in case a proxy on the way holds it back. */
const FALLBACK_POLL_MS = 2_000;

/**
 * An operation and its log, as they happen.
 *
 * @param reading whether somebody looks at the log: one that is done is streamed for them alone.
 */
export function useOperation(operationId: string, clusterId: string, reading: boolean) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const [lines, setLines] = useState<readonly OperationEvent[]>([]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another operation has another log
  useEffect(() => setLines([]), [operationId]);
  const query = useQuery(
    trpc.operation.get.queryOptions(
      { operation_id: operationId },
      { refetchInterval: ({ state }) => (state.data?.done ? false : FALLBACK_POLL_MS) },
    ),
  );
  const done = query.data?.done === true;
  useSubscription(
    trpc.operation.watch.subscriptionOptions(
      { operation_id: operationId },
      {
        enabled: query.data !== undefined && (!done || reading),
        onData: ({ data: event }) => {
          setLines((before) => withEvent(before, event));
          // Log lines come by the hundred and change neither operation nor cluster.
          if (event.kind === "log" || done) return;
          refreshAfterEvent(queryClient, trpc, { operationId, clusterId });
        },
      },
    ),
  );
  return { operation: query.data, error: query.error, lines };
}

/** What an operation's event may have changed: itself, the list, its cluster and the drift. */
export function refreshAfterEvent(
  queryClient: QueryClient,
  trpc: ReturnType<typeof useTRPC>,
  { operationId, clusterId }: { operationId: string; clusterId: string },
): void {
  const byOperation = { operation_id: operationId };
  const byCluster = { cluster_id: clusterId };
  void queryClient.invalidateQueries(trpc.operation.get.queryFilter(byOperation));
  void queryClient.invalidateQueries(trpc.operation.list.pathFilter());
  void queryClient.invalidateQueries(trpc.cluster.get.queryFilter(byCluster));
  void queryClient.invalidateQueries(trpc.cluster.drift.queryFilter(byCluster));
}
