"use client";

import { Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { isClusterUserName } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { messageOf, statusOf, useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { SecretDialog } from "../shell/secret-dialog.tsx";

interface DialogProps {
  clusterId: string;
  opened: boolean;
  onClose: () => void;
}

/** Creates a user and shows its password, which the broker keeps salted and hashed only. */
export function CreateUserDialog({ clusterId, opened, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: { name: "" },
    validate: {
      name: (value) =>
        isClusterUserName(value)
          ? null
          : "Use 1 to 128 letters, digits, dots, underscores, hyphens and @, starting with a letter or digit; ANONYMOUS is reserved",
    },
  });
  const create = useMutation(
    trpc.user.create.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.user.list.pathFilter()),
      onError: (error) => {
        if (statusOf(error) === 409) form.setFieldError("name", messageOf(error));
      },
    }),
  );

  function close() {
    form.reset();
    create.reset();
    onClose();
  }

  return (
    <SecretDialog
      opened={opened}
      title="Create user"
      secret={create.data?.password ?? undefined}
      secretTitle={`Copy the password of ${create.data?.name ?? ""}`}
      note="Copy the password now. It is not shown again."
      busy={create.isPending}
      onClose={close}
    >
      <form
        noValidate
        onSubmit={form.onSubmit(({ name }) => create.mutate({ cluster_id: clusterId, name }))}
      >
        <Stack>
          <TextInput
            label="Name"
            placeholder="e.g. alice"
            description="Millrace generates the password."
            autoComplete="off"
            data-autofocus
            {...form.getInputProps("name")}
          />
          <FormActions
            submit="Create"
            busy={create.isPending}
            error={statusOf(create.error) === 409 ? null : create.error}
            cancelDisabled={create.isPending}
            onCancel={close}
          />
        </Stack>
      </form>
    </SecretDialog>
  );
}
