"use client";

import { Text } from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { IconHistory } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useTRPC } from "../api/client.tsx";
import { OperationButton } from "../operation/operation-button.tsx";
import { useRefresh } from "../operation/use-refresh.ts";
import { useAllowed } from "../session/use-allowed.ts";
import { needsRecovery } from "./broker-state.ts";

/** Starts the recovery of a broker that lost its data. Its plan is approved on the operation's page. */
export function RecoverButton({ cluster }: { cluster: Cluster }) {
  const mayAct = useAllowed("cluster:update");
  const recover = useRecovery();
  if (!mayAct || !needsRecovery(cluster)) return null;
  return (
    <OperationButton
      clusterId={cluster.metadata.id}
      start={recover}
      label="Recover"
      icon={<IconHistory size={14} />}
      title={`Recover the cluster ${cluster.spec.name}`}
      confirm="Plan the recovery"
      refusal="The recovery was not started"
    >
      <Text fz="sm">
        Use this if the broker lost its metadata, its write-ahead log or its volume and refuses to
        start. The metadata is rebuilt from the backup in the cluster&apos;s bucket.
      </Text>
      <Text fz="sm">
        The first step only makes a plan: it lists what comes back and which acknowledged records
        are missing. Nothing changes until you approve it.
      </Text>
    </OperationButton>
  );
}

function useRecovery() {
  const trpc = useTRPC();
  const router = useRouter();
  const refresh = useRefresh();
  return useMutation(
    trpc.cluster.recover.mutationOptions({
      onSuccess: (operation, { cluster_id }) => {
        refresh();
        if ("id" in operation) router.push(`/clusters/${cluster_id}/operations/${operation.id}`);
      },
    }),
  );
}
