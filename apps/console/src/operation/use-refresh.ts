"use client";

import { useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";

/** Reloads clusters and operations: an operation was started, or moved on. */
export function useRefresh(): () => void {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  return () => {
    void queryClient.invalidateQueries(trpc.cluster.pathFilter());
    void queryClient.invalidateQueries(trpc.operation.pathFilter());
  };
}
