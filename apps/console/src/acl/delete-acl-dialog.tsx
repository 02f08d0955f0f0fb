"use client";

import type { Acl } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { aclWords } from "./acl-words.ts";

interface DialogProps {
  clusterId: string;
  /** The ACL to delete; the dialog is closed without one. */
  acl: Acl | undefined;
  onClose: () => void;
}

export function DeleteAclDialog({ clusterId, acl, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const remove = useMutation(
    trpc.acl.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.acl.pathFilter());
        onClose();
      },
    }),
  );
  return (
    <ConfirmByName
      what="ACL"
      name={acl?.principal}
      text={`Takes effect at once: ${acl === undefined ? "" : aclWords(acl)}.`}
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() => acl && remove.mutate({ cluster_id: clusterId, ...acl })}
      onClose={() => {
        remove.reset();
        onClose();
      }}
    />
  );
}
