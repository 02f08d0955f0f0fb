"use client";

import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Cluster } from "@millrace/contract";
import { IconHistory } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useTRPC } from "../api/client.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";

/** Phases that a recovery can start in: the broker does not serve. */
const RECOVERABLE: readonly Cluster["status"]["phase"][] = ["DEGRADED", "FAILED", "PAUSED"];

/** Starts the recovery of a broker that lost its data. Its plan is approved on the operation's page. */
export function RecoverButton({ cluster }: { cluster: Cluster }) {
  const mayAct = useAllowed("cluster:update");
  const [opened, dialog] = useDisclosure(false);
  const recover = useRecovery();
  if (!mayAct || !RECOVERABLE.includes(cluster.status.phase)) return null;
  return (
    <>
      <Button
        variant="default"
        size="xs"
        leftSection={<IconHistory size={14} />}
        onClick={dialog.open}
      >
        Recover
      </Button>
      <Modal
        opened={opened}
        onClose={dialog.close}
        title={`Recover the cluster ${cluster.spec.name}`}
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <Stack>
          <Text fz="sm">
            Use this if the broker lost its metadata, its write-ahead log or its volume and refuses
            to start. The metadata is rebuilt from the backup in the cluster&apos;s bucket.
          </Text>
          <Text fz="sm">
            The first step only makes a plan: it lists what comes back and which acknowledged
            records are missing. Nothing changes until you approve it.
          </Text>
          {recover.error && (
            <ProblemAlert error={recover.error} title="The recovery was not started" />
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={dialog.close}>
              Cancel
            </Button>
            <Button
              loading={recover.isPending}
              data-autofocus
              onClick={() => recover.mutate({ cluster_id: cluster.metadata.id })}
            >
              Plan the recovery
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}

function useRecovery() {
  const trpc = useTRPC();
  const router = useRouter();
  const queryClient = useQueryClient();
  return useMutation(
    trpc.cluster.recover.mutationOptions({
      onSuccess: (operation, { cluster_id }) => {
        void queryClient.invalidateQueries(trpc.cluster.pathFilter());
        void queryClient.invalidateQueries(trpc.operation.pathFilter());
        if ("id" in operation) router.push(`/clusters/${cluster_id}/operations/${operation.id}`);
      },
    }),
  );
}
