"use client";

import { Alert, Button, Group, Modal, NumberInput, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { isTopicName, TOPIC_PARTITIONS_MAX } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { messageOf, statusOf, useTRPC } from "../api/client.tsx";

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
        isTopicName(value) ? null : "Letters, digits, dot, underscore and hyphen; at most 249",
      partitions: (value) =>
        Number(value) >= 1 && Number(value) <= TOPIC_PARTITIONS_MAX
          ? null
          : `From 1 to ${TOPIC_PARTITIONS_MAX}`,
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
    <Modal
      opened={opened}
      onClose={close}
      title="Create topic"
      closeButtonProps={{ "aria-label": "Close" }}
    >
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
            placeholder="orders"
            data-autofocus
            {...form.getInputProps("name")}
          />
          <NumberInput
            label="Partitions"
            description="More can be added later; there is no way back to fewer"
            min={1}
            max={TOPIC_PARTITIONS_MAX}
            allowDecimal={false}
            {...form.getInputProps("partitions")}
          />
          {create.error && statusOf(create.error) !== 409 && (
            <Alert color="red" role="alert">
              {messageOf(create.error)}
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button type="submit" loading={create.isPending}>
              Create
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
