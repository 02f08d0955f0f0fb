"use client";

import { Stack, Text } from "@mantine/core";
import { INITIAL_CLUSTER_USER } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { statusOf, useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { SecretDialog } from "../shell/secret-dialog.tsx";

interface DialogProps {
  clusterId: string;
  opened: boolean;
  onClose: () => void;
}

/** Gives the cluster's first user a new password and shows it once. Creates the user where there is none. */
export function InitialUserDialog({ clusterId, opened, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const onSuccess = () => void queryClient.invalidateQueries(trpc.user.list.pathFilter());
  const create = useMutation(trpc.user.create.mutationOptions({ onSuccess }));
  const rotate = useMutation(
    trpc.user.rotate.mutationOptions({
      onSuccess,
      onError: (error) => {
        // A cluster of an earlier version, or somebody deleted the user.
        if (statusOf(error) === 404) {
          create.mutate({ cluster_id: clusterId, name: INITIAL_CLUSTER_USER });
        }
      },
    }),
  );
  const busy = rotate.isPending || create.isPending;

  function close() {
    rotate.reset();
    create.reset();
    onClose();
  }

  return (
    <SecretDialog
      opened={opened}
      title={`New password for ${INITIAL_CLUSTER_USER}`}
      secret={rotate.data?.password ?? create.data?.password ?? undefined}
      secretTitle={`Copy the password of ${INITIAL_CLUSTER_USER}`}
      note="Copy the password now. It is not shown again."
      busy={busy}
      onClose={close}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          rotate.mutate({ cluster_id: clusterId, user_name: INITIAL_CLUSTER_USER });
        }}
      >
        <Stack>
          <Text fz="sm">
            Clients that sign in as {INITIAL_CLUSTER_USER} need the new password when they connect
            again. Open connections stay.
          </Text>
          <FormActions
            submit="Set new password"
            busy={busy}
            error={statusOf(rotate.error) === 404 ? create.error : rotate.error}
            cancelDisabled={busy}
            onCancel={close}
          />
        </Stack>
      </form>
    </SecretDialog>
  );
}
