"use client";

import { Modal, Stack, TextInput } from "@mantine/core";
import type { Environment } from "@millrace/contract";
import { LABEL_MAX } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";

interface DialogProps {
  opened: boolean;
  /** The one to rename; a new one is made without it. */
  environment: Environment | undefined;
  onClose: () => void;
}

/** Creates or renames an environment. */
export function NameEnvironmentDialog({ opened, environment, onClose }: DialogProps) {
  const [name, setName] = useState("");
  useEffect(() => setName(environment?.name ?? ""), [environment]);
  const { save, error, busy, forget } = useSave(environment, () => close());

  function close() {
    if (environment === undefined) setName("");
    forget();
    onClose();
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    if (name.trim() !== "") save(name.trim());
  }

  return (
    <Modal
      opened={opened}
      onClose={close}
      title={environment ? `Rename environment ${environment.name}` : "Create environment"}
    >
      <form noValidate onSubmit={submit}>
        <Stack>
          <TextInput
            label="Name"
            placeholder="e.g. staging"
            maxLength={LABEL_MAX}
            autoComplete="off"
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <FormActions
            submit={environment ? "Rename" : "Create"}
            busy={busy}
            disabled={name.trim() === ""}
            error={error}
            onCancel={close}
          />
        </Stack>
      </form>
    </Modal>
  );
}

function useSave(environment: Environment | undefined, onSaved: () => void) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const options = {
    onSuccess: () => {
      void queryClient.invalidateQueries(trpc.environment.pathFilter());
      onSaved();
    },
  };
  const create = useMutation(trpc.environment.create.mutationOptions(options));
  const update = useMutation(trpc.environment.update.mutationOptions(options));
  return {
    save: (name: string) =>
      environment
        ? update.mutate({ environment_id: environment.id, name })
        : create.mutate({ name }),
    error: create.error ?? update.error,
    busy: create.isPending || update.isPending,
    forget: () => {
      create.reset();
      update.reset();
    },
  };
}
