"use client";

import type { ClientQuota } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { quotaWords } from "./quota-words.ts";

interface DialogProps {
  clusterId: string;
  /** The quota to delete; the dialog is closed without one. */
  quota: ClientQuota | undefined;
  onClose: () => void;
}

export function DeleteQuotaDialog({ clusterId, quota, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const remove = useMutation(
    trpc.quota.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.quota.list.pathFilter());
        onClose();
      },
    }),
  );
  const entity = {
    ...(quota?.user != null && { user: quota.user }),
    ...(quota?.client_id != null && { client_id: quota.client_id }),
  };
  return (
    <ConfirmByName
      what="quota"
      name={quota?.user ?? quota?.client_id ?? undefined}
      text={`All limits of ${quota === undefined ? "" : quotaWords(quota)} end at once.`}
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate({ cluster_id: clusterId, ...entity })}
      onClose={() => {
        remove.reset();
        onClose();
      }}
    />
  );
}
