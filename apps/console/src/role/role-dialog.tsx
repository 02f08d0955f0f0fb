"use client";

import { Modal, MultiSelect, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { CustomRole } from "@millrace/contract";
import {
  CUSTOM_ROLE_PERMISSIONS,
  DESCRIPTION_LENGTH_MAX,
  LABEL_MAX,
  type Permission,
} from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useTRPC } from "../api/client.tsx";
import { usePermissions } from "../session/use-allowed.ts";
import { FormActions } from "../shell/form-actions.tsx";

interface DialogProps {
  opened: boolean;
  /** The role to change; undefined creates a new one. */
  edited: CustomRole | undefined;
  onClose: () => void;
}

interface Draft {
  name: string;
  description: string;
  permissions: Permission[];
}

export function RoleDialog({ opened, edited: role, onClose }: DialogProps) {
  const held = usePermissions();
  const form = useForm<Draft>({
    initialValues: { name: "", description: "", permissions: [] },
    validate: {
      name: (value) => (value.trim() ? null : "Enter a name"),
      permissions: (value) => (value.length > 0 ? null : "Choose at least one permission"),
    },
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another role changes the fields
  useEffect(() => {
    if (role) form.setValues({ ...role, permissions: [...role.permissions] });
  }, [role]);
  const { save, error, busy, forget } = useSave(role, () => close());

  function close() {
    form.reset();
    forget();
    onClose();
  }

  return (
    <Modal opened={opened} onClose={close} title={role ? `Edit role ${role.name}` : "Create role"}>
      <form noValidate onSubmit={form.onSubmit(save)}>
        <Stack>
          <TextInput
            label="Name"
            placeholder="e.g. topic manager"
            maxLength={LABEL_MAX}
            autoComplete="off"
            disabled={role !== undefined}
            data-autofocus
            {...form.getInputProps("name")}
          />
          <TextInput
            label="Description"
            maxLength={DESCRIPTION_LENGTH_MAX}
            autoComplete="off"
            {...form.getInputProps("description")}
          />
          <MultiSelect
            label="Permissions"
            description="Only permissions that you have yourself. account:read and account:write are always included."
            data={CUSTOM_ROLE_PERMISSIONS.filter((each) => held?.includes(each))}
            searchable
            {...form.getInputProps("permissions")}
          />
          <FormActions
            submit={role ? "Save" : "Create"}
            busy={busy}
            error={error}
            onCancel={close}
          />
        </Stack>
      </form>
    </Modal>
  );
}

function useSave(role: CustomRole | undefined, onSaved: () => void) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const options = {
    onSuccess: () => {
      void queryClient.invalidateQueries(trpc.role.pathFilter());
      void queryClient.invalidateQueries(trpc.account.pathFilter());
      onSaved();
    },
  };
  const create = useMutation(trpc.role.create.mutationOptions(options));
  const update = useMutation(trpc.role.update.mutationOptions(options));
  return {
    save: ({ name, description, permissions }: Draft) =>
      role
        ? update.mutate({ role_id: role.id, description, permissions })
        : create.mutate({ name, description, permissions }),
    error: create.error ?? update.error,
    busy: create.isPending || update.isPending,
    forget: () => {
      create.reset();
      update.reset();
    },
  };
}
