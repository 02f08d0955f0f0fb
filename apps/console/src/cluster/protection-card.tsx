"use client";

import { Card, Stack, Switch } from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";

/** Whether the cluster can be deleted at all; takes effect at once. */
export function ProtectionCard({ cluster, editable }: { cluster: Cluster; editable: boolean }) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const update = useMutation(
    trpc.cluster.update.mutationOptions({
      onSettled: () => void queryClient.invalidateQueries(trpc.cluster.pathFilter()),
    }),
  );
  return (
    <Card component="section" aria-label="Protection">
      <Stack gap="sm">
        <Switch
          label="Deletion protection"
          description="While it is on, nobody deletes the cluster, neither here nor by a program"
          checked={cluster.spec.deletion_protection}
          disabled={!editable || update.isPending}
          onChange={(event) =>
            update.mutate({
              cluster_id: cluster.metadata.id,
              deletion_protection: event.currentTarget.checked,
            })
          }
        />
        {update.error && <ProblemAlert error={update.error} title="It was not switched" />}
      </Stack>
    </Card>
  );
}
