"use client";

import { Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import type { TuningChange } from "@millrace/contract";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { useCluster } from "../cluster/live.ts";
import { ReviewDialog } from "../shell/review-dialog.tsx";
import { revertedText, revertText } from "./apply-words.ts";
import { ChangeLine } from "./confirm-change.tsx";
import { revertOf } from "./draft.ts";

/** Asks before a change of the history is reverted. */
export function RevertChange(props: {
  clusterId: string;
  change: TuningChange;
  onClose: () => void;
}) {
  const { clusterId, change, onClose } = props;
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const { data: tuning } = useQuery(trpc.tuning.get.queryOptions({ cluster_id: clusterId }));
  const paused = useCluster(clusterId).data?.status.phase === "PAUSED";
  const revert = useMutation(
    trpc.tuning.revert.mutationOptions({
      onSuccess: ({ applied }) => {
        onClose();
        void queryClient.invalidateQueries(trpc.tuning.pathFilter());
        notifications.show({ message: revertedText(change.version, { applied, paused }) });
      },
    }),
  );
  return (
    <ReviewDialog
      opened
      title={`Revert change #${change.version}`}
      size="lg"
      confirm="Revert"
      busy={revert.isPending}
      error={revert.error}
      errorTitle="Cannot revert the change"
      onConfirm={() => revert.mutate({ cluster_id: clusterId, change_id: change.id })}
      onClose={onClose}
    >
      <Stack gap="xs">
        {revertOf(change.changes, tuning).map((line) => (
          <ChangeLine key={line.knob} change={line} />
        ))}
      </Stack>
      <Text fz="sm" className="quiet">
        {revertText(paused)}
      </Text>
    </ReviewDialog>
  );
}
