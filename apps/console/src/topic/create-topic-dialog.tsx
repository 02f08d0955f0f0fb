"use client";

import { Modal, NumberInput, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { isTopicName } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { messageOf, statusOf, useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { newPartitionsError, PARTITIONS_RULE } from "./topic-draft.ts";

interface DialogProps {
  clusterId: string;
  opened: boolean;
  onClose: () => void;
}

export function CreateTopicDialog({ clusterId, opened, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: { name: "", partitions: 1 as number | string },
    validate: {
      name: (value) =>
        isTopicName(value) ? null : "Use 1 to 249 letters, digits, dots, underscores and hyphens",
      partitions: (value) => newPartitionsError(value) ?? null,
    },
  });
  const create = useMutation(
    trpc.topic.create.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.topic.list.pathFilter());
        close();
      },
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
    <Modal opened={opened} onClose={close} title="Create topic">
      <form
        noValidate
        onSubmit={form.onSubmit(({ name, partitions }) =>
          create.mutate({
            cluster_id: clusterId,
            name,
            partitions: Number(partitions),
            configs: {},
          }),
        )}
      >
        <Stack>
          <TextInput
            label="Name"
            placeholder="e.g. orders"
            data-autofocus
            {...form.getInputProps("name")}
          />
          <NumberInput
            label="Partitions"
            description={PARTITIONS_RULE}
            allowDecimal={false}
            allowNegative={false}
            {...form.getInputProps("partitions")}
          />
          <FormActions
            submit="Create"
            busy={create.isPending}
            error={statusOf(create.error) === 409 ? null : create.error}
            onCancel={close}
          />
        </Stack>
      </form>
    </Modal>
  );
}
