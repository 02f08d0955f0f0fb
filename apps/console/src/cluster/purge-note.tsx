"use client";

import { Alert, Button, Group, Text } from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { useAllowed } from "../session/use-allowed.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";

/** The cluster is deleted, its data is not: until when that is so, and the way back. */
export function PurgeNote({ cluster }: { cluster: Cluster }) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const mayRestore = useAllowed("cluster:update");
  const restore = useMutation(
    trpc.cluster.restore.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.cluster.pathFilter()),
    }),
  );
  const purgeAt = cluster.status.purge_at;
  return (
    <>
      <Alert
        color="orange"
        icon={<IconTrash size={18} />}
        styles={{ title: { color: "var(--mantine-color-text)" } }}
        title="This cluster is deleted"
        role="status"
      >
        <Group justify="space-between">
          <Text fz="sm" data-purge={purgeAt}>
            Its data is kept{purgeAt && ` until ${moment(purgeAt)} and purged ${ago(purgeAt)}`}.
          </Text>
          {mayRestore && (
            <Button
              size="xs"
              loading={restore.isPending}
              onClick={() => restore.mutate({ cluster_id: cluster.metadata.id })}
            >
              Restore the cluster
            </Button>
          )}
        </Group>
      </Alert>
      {restore.error && <ProblemAlert error={restore.error} title="It was not restored" />}
    </>
  );
}
