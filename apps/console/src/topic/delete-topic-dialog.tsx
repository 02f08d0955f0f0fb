"use client";

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";

interface DialogProps {
  clusterId: string;
  /** The topic to delete; the dialog is closed without one. */
  name: string | undefined;
  onClose: () => void;
}

export function DeleteTopicDialog({ clusterId, name, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const remove = useMutation(
    trpc.topic.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.topic.list.pathFilter());
        onClose();
      },
    }),
  );
  return (
    <ConfirmByName
      what="topic"
      name={name}
      text="Deletes all its records permanently. Producers and consumers of this topic will fail."
      busy={remove.isPending}
      error={remove.error}
      onConfirm={(topic) => remove.mutate({ cluster_id: clusterId, topic_name: topic })}
      onClose={() => {
        remove.reset();
        onClose();
      }}
    />
  );
}
