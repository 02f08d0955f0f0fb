"use client";

import { Text } from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { IconRefresh } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { OperationButton } from "../operation/operation-button.tsx";
import { useRefresh } from "../operation/use-refresh.ts";
import { useAllowed } from "../session/use-allowed.ts";

interface RestartButtonProps {
  cluster: Cluster;
  /** Undefined: all of them, one after the other. */
  brokerId?: number;
}

const RESTARTABLE: readonly Cluster["status"]["phase"][] = ["RUNNING", "DEGRADED"];

/** Restarts a broker, or all of them one at a time, after a review. Nothing where that is not possible. */
export function RestartButton({ cluster, brokerId }: RestartButtonProps) {
  const trpc = useTRPC();
  const refresh = useRefresh();
  const mayAct = useAllowed("cluster:update");
  const restart = useMutation(trpc.cluster.restart.mutationOptions({ onSuccess: refresh }));
  const isHere = cluster.status.provider === "local";
  if (!mayAct || !isHere || !RESTARTABLE.includes(cluster.status.phase)) return null;
  const what = brokerId === undefined ? "all brokers" : `broker ${brokerId}`;
  const body = brokerId === undefined ? {} : { broker_id: brokerId };
  return (
    <OperationButton
      clusterId={cluster.metadata.id}
      start={{
        mutate: (request, options) => restart.mutate({ ...request, ...body }, options),
        isPending: restart.isPending,
        error: restart.error,
      }}
      label={brokerId === undefined ? "Restart all" : "Restart"}
      icon={<IconRefresh size={14} />}
      title={`Restart ${what} of ${cluster.spec.name}`}
      confirm={`Restart ${what}`}
      refusal="Nothing was restarted"
    >
      <Text fz="sm">{restartText(cluster, brokerId)}</Text>
    </OperationButton>
  );
}

/** What clients notice of a restart. */
export function restartText({ spec }: Pick<Cluster, "spec">, brokerId?: number): string {
  if (spec.brokers === 1) {
    return "Clients are disconnected until the broker is ready again, usually for a few seconds.";
  }
  if (brokerId === undefined) {
    return "Each broker gives its partitions to the others before it restarts, and the next one waits until all others serve. Clients are redirected.";
  }
  return "The broker gives its partitions to the others before it restarts. Clients are redirected.";
}
