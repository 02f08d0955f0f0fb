"use client";

import type { ClusterUser } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";

export type Mechanism = ClusterUser["mechanisms"][number];

interface DialogProps {
  clusterId: string;
  /** What to remove from whom; the dialog is closed without it. */
  removal: { user: ClusterUser; mechanism: Mechanism } | undefined;
  onClose: () => void;
}

/** Ends the overlap after a rotation: the old password goes with its mechanism. */
export function RemoveMechanismDialog({ clusterId, removal, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const update = useMutation(
    trpc.user.update.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.user.list.pathFilter());
        onClose();
      },
    }),
  );
  const { user, mechanism } = removal ?? {};
  return (
    <ConfirmByName
      what="mechanism"
      verb="Remove"
      name={mechanism}
      text={`${user?.name ?? ""} cannot sign in with ${mechanism ?? ""} and its password any more. A removed mechanism cannot be added again.`}
      busy={update.isPending}
      error={update.error}
      onConfirm={() =>
        user &&
        update.mutate({
          cluster_id: clusterId,
          user_name: user.name,
          mechanisms: user.mechanisms.filter((each) => each !== mechanism),
        })
      }
      onClose={() => {
        update.reset();
        onClose();
      }}
    />
  );
}
