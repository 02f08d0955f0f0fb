"use client";

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";

interface DialogProps {
  clusterId: string;
  /** The user to delete; the dialog is closed without one. */
  name: string | undefined;
  onClose: () => void;
}

export function DeleteUserDialog({ clusterId, name, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const remove = useMutation(
    trpc.user.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.user.list.pathFilter());
        onClose();
      },
    }),
  );
  return (
    <ConfirmByName
      what="user"
      name={name}
      text="Clients cannot sign in as this user any more. Open connections stay until they end. ACLs and quotas stay, too: a user created again by this name has them."
      busy={remove.isPending}
      error={remove.error}
      onConfirm={(user) => remove.mutate({ cluster_id: clusterId, user_name: user })}
      onClose={() => {
        remove.reset();
        onClose();
      }}
    />
  );
}
