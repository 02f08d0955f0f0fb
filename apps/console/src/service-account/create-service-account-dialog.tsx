"use client";

import { Modal, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { DESCRIPTION_LENGTH_MAX, LABEL_MAX, ROLE_LEAST, type Role } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { roleOptions } from "../member/role-words.ts";
import { usePermissions } from "../session/use-allowed.ts";
import { FormActions } from "../shell/form-actions.tsx";

interface DialogProps {
  opened: boolean;
  onClose: () => void;
}

export function CreateServiceAccountDialog({ opened, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const held = usePermissions();
  const form = useForm({
    initialValues: { name: "", description: "", role: ROLE_LEAST as Role },
    validate: { name: (value) => (value.trim() ? null : "Enter a name") },
  });
  const create = useMutation(
    trpc.serviceAccount.create.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.serviceAccount.pathFilter());
        close();
      },
    }),
  );

  function close() {
    create.reset();
    form.reset();
    onClose();
  }

  return (
    <Modal opened={opened} onClose={close} title="Create service account">
      <form noValidate onSubmit={form.onSubmit((values) => create.mutate(values))}>
        <Stack>
          <TextInput
            label="Name"
            placeholder="e.g. deploy"
            maxLength={LABEL_MAX}
            autoComplete="off"
            data-autofocus
            {...form.getInputProps("name")}
          />
          <TextInput
            label="Description"
            maxLength={DESCRIPTION_LENGTH_MAX}
            autoComplete="off"
            {...form.getInputProps("description")}
          />
          <Select
            label="Role"
            data={roleOptions(held)}
            allowDeselect={false}
            {...form.getInputProps("role")}
          />
          <FormActions
            submit="Create"
            busy={create.isPending}
            error={create.error}
            onCancel={close}
          />
        </Stack>
      </form>
    </Modal>
  );
}
