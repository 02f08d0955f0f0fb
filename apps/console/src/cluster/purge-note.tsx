"use client";

import { Alert, Button, Group, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Cluster } from "@millrace/contract";
import { IconTrash } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { useRefresh } from "../operation/use-refresh.ts";
import { useAllowed } from "../session/use-allowed.ts";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";

/** A deleted cluster whose data is kept: until when, with restore and purge. */
export function PurgeNote({ cluster }: { cluster: Cluster }) {
  const mayRestore = useAllowed("cluster:update");
  const mayPurge = useAllowed("cluster:delete");
  const { restore, purge } = useWays();
  const [asked, dialog] = useDisclosure(false);
  const purgeAt = cluster.status.purge_at;
  const cluster_id = cluster.metadata.id;
  return (
    <>
      <Alert
        color="orange"
        icon={<IconTrash size={18} />}
        styles={{ title: { color: "var(--mantine-color-text)" } }}
        title="This cluster was deleted"
        role="status"
      >
        <Group justify="space-between">
          <Text fz="sm" data-purge={purgeAt}>
            {purgeAt
              ? `Its data is kept until ${moment(purgeAt)} (${ago(purgeAt)}).`
              : "Its data is kept."}
          </Text>
          <Group gap="xs">
            {mayRestore && (
              <Button
                size="xs"
                loading={restore.isPending}
                onClick={() => restore.mutate({ cluster_id })}
              >
                Restore cluster
              </Button>
            )}
            {mayPurge && (
              <Button size="xs" variant="default" onClick={dialog.open}>
                Purge now
              </Button>
            )}
          </Group>
        </Group>
      </Alert>
      {restore.error && <ProblemAlert error={restore.error} title="The cluster was not restored" />}
      <ConfirmByName
        what="data"
        name={asked ? cluster.spec.name : undefined}
        text="All records are deleted immediately and permanently."
        busy={purge.isPending}
        error={purge.error}
        onConfirm={() => purge.mutate({ cluster_id, retain_days: 0 }, { onSuccess: dialog.close })}
        onClose={dialog.close}
      />
    </>
  );
}

function useWays() {
  const trpc = useTRPC();
  const onSuccess = useRefresh();
  const restore = useMutation(trpc.cluster.restore.mutationOptions({ onSuccess }));
  // A deletion with 0 days purges the kept data of a deleted cluster.
  const purge = useMutation(trpc.cluster.delete.mutationOptions({ onSuccess }));
  return { restore, purge };
}
