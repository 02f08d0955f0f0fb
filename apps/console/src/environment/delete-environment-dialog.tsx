"use client";

import type { Environment } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";

interface DialogProps {
  /** The one to delete; the dialog is closed without it. */
  environment: Environment | undefined;
  onClose: () => void;
}

/** Deletes an environment; the API refuses while it has clusters. */
export function DeleteEnvironmentDialog({ environment, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const remove = useMutation(
    trpc.environment.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.environment.pathFilter());
        onClose();
      },
    }),
  );
  return (
    <ConfirmByName
      what="environment"
      name={environment?.name}
      text="Only an environment without clusters can be deleted."
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() => environment && remove.mutate({ environment_id: environment.id })}
      onClose={() => {
        remove.reset();
        onClose();
      }}
    />
  );
}
