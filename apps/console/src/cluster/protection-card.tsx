"use client";

import { Card, Stack, Switch } from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";

/** Switches deletion protection; takes effect immediately. */
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
          description="Blocks deletion from the console and API"
          checked={cluster.spec.deletion_protection}
          disabled={!editable || update.isPending}
          onChange={(event) =>
            update.mutate({
              cluster_id: cluster.metadata.id,
              deletion_protection: event.currentTarget.checked,
            })
          }
        />
        {update.error && (
          <ProblemAlert error={update.error} title="Deletion protection was not changed" />
        )}
      </Stack>
    </Card>
  );
}
