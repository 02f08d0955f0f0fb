"use client";

import { Radio, Stack, Text } from "@mantine/core";
import type { ClusterUser } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { SecretDialog } from "../shell/secret-dialog.tsx";
import type { Mechanism } from "./remove-mechanism-dialog.tsx";

interface DialogProps {
  clusterId: string;
  /** The user whose password is rotated; the dialog is closed without one. */
  user: ClusterUser | undefined;
  onClose: () => void;
}

const ALL = "all";

/** Gives a user a new password: for every mechanism, or for one, so that clients can move one by one. */
export function RotateUserDialog({ clusterId, user, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const [choice, setChoice] = useState<Mechanism | typeof ALL>(ALL);
  const rotate = useMutation(
    trpc.user.rotate.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.user.list.pathFilter()),
    }),
  );

  function close() {
    rotate.reset();
    setChoice(ALL);
    onClose();
  }

  return (
    <SecretDialog
      opened={user !== undefined}
      title={`Rotate the password of ${user?.name ?? ""}`}
      secret={rotate.data?.password ?? undefined}
      secretTitle={`Copy the new password of ${user?.name ?? ""}`}
      note="Copy the password now. It is not shown again."
      busy={rotate.isPending}
      onClose={close}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          rotate.mutate({
            cluster_id: clusterId,
            user_name: user?.name ?? "",
            ...(choice !== ALL && { mechanism: choice }),
          });
        }}
      >
        <Stack>
          <Text fz="sm">
            Clients need the new password when they reconnect. Connections stay open. The user's
            delegation tokens remain valid until they expire, or until you expire them.
          </Text>
          {user !== undefined && user.mechanisms.length > 1 && (
            <Choice user={user} choice={choice} onChange={setChoice} />
          )}
          <FormActions
            submit="Rotate"
            busy={rotate.isPending}
            error={rotate.error}
            cancelDisabled={rotate.isPending}
            onCancel={close}
          />
        </Stack>
      </form>
    </SecretDialog>
  );
}

function Choice(props: {
  user: ClusterUser;
  choice: Mechanism | typeof ALL;
  onChange: (choice: Mechanism | typeof ALL) => void;
}) {
  const { user, choice, onChange } = props;
  return (
    <Radio.Group
      label="New password for"
      value={choice}
      onChange={(value) => onChange(value as Mechanism | typeof ALL)}
    >
      <Stack gap="xs" mt="xs">
        <Radio value={ALL} label="Every mechanism: the old password ends now" />
        {user.mechanisms.map((mechanism) => (
          <Radio
            key={mechanism}
            value={mechanism}
            label={`${mechanism} only: the old password stays valid with ${user.mechanisms
              .filter((other) => other !== mechanism)
              .join(" and ")}`}
          />
        ))}
      </Stack>
    </Radio.Group>
  );
}
