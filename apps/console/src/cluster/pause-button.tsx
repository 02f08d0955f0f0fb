"use client";

import { Button, Text } from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { usd } from "../format/money.ts";
import { OperationButton } from "../operation/operation-button.tsx";
import { useRefresh } from "../operation/use-refresh.ts";
import { useAllowed } from "../session/use-allowed.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { estimateOfCluster } from "./cluster-estimate.ts";

/** Phases in which a cluster can be paused. */
const PAUSABLE: readonly Cluster["status"]["phase"][] = ["RUNNING", "DEGRADED"];

/** Pauses a cluster that runs, and resumes one that is paused. */
export function PauseButton({ cluster }: { cluster: Cluster }) {
  const mayAct = useAllowed("cluster:update");
  if (!mayAct) return null;
  if (cluster.status.phase === "PAUSED") return <Resume cluster={cluster} />;
  return PAUSABLE.includes(cluster.status.phase) ? <Pause cluster={cluster} /> : null;
}

function Pause({ cluster }: { cluster: Cluster }) {
  const trpc = useTRPC();
  const refresh = useRefresh();
  const pause = useMutation(trpc.cluster.pause.mutationOptions({ onSuccess: refresh }));
  return (
    <OperationButton
      clusterId={cluster.metadata.id}
      start={pause}
      label="Pause"
      icon={<IconPlayerPause size={14} />}
      title={`Pause cluster ${cluster.spec.name}`}
      confirm="Pause cluster"
      refusal="The cluster was not paused"
    >
      <Text fz="sm">
        The broker stops and clients are disconnected. All records are kept and available again
        after you resume the cluster.
      </Text>
      <Text fz="sm" className="quiet">
        {costText(cluster)}
      </Text>
    </OperationButton>
  );
}

/** What a pause saves, where the cluster costs anything. */
export function costText(cluster: Cluster): string {
  const now = estimateOfCluster(cluster, { paused: false });
  if (now.total === 0) return "Takes a few seconds.";
  const paused = estimateOfCluster(cluster, { paused: true });
  return (
    `Estimated cost while paused: ${usd(paused.total)} per month instead of ${usd(now.total)}, ` +
    "for the volume, the network and stored data."
  );
}

export function Resume({ cluster }: { cluster: Cluster }) {
  const trpc = useTRPC();
  const refresh = useRefresh();
  const resume = useMutation(trpc.cluster.resume.mutationOptions({ onSuccess: refresh }));
  return (
    <>
      {resume.error && <ProblemAlert error={resume.error} title="The cluster was not resumed" />}
      <Button
        size="xs"
        leftSection={<IconPlayerPlay size={14} />}
        loading={resume.isPending}
        onClick={() => resume.mutate({ cluster_id: cluster.metadata.id })}
      >
        Resume
      </Button>
    </>
  );
}
