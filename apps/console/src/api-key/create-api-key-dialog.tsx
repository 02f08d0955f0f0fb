"use client";

import {
  Alert,
  Button,
  Code,
  CopyButton,
  Group,
  Modal,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { messageOf, useTRPC } from "../api/client.tsx";

/** Makes a key and shows its secret, which is kept nowhere in the clear. */
export function CreateApiKeyDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: { name: "" },
    validate: { name: (value) => (value.trim() ? null : "Name what will use it") },
  });
  const create = useMutation(
    trpc.apiKey.create.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.apiKey.list.pathFilter()),
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
      title="Create an API key"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {create.data ? (
        <Secret secret={create.data.secret} onDone={close} />
      ) : (
        <form noValidate onSubmit={form.onSubmit(({ name }) => create.mutate({ name }))}>
          <Stack>
            <TextInput
              label="Name"
              placeholder="deploy pipeline"
              data-autofocus
              {...form.getInputProps("name")}
            />
            {create.error && (
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
      )}
    </Modal>
  );
}

function Secret({ secret, onDone }: { secret: string; onDone: () => void }) {
  return (
    <Stack>
      <Text fz="sm">Copy the key now. It is not shown again.</Text>
      <Code block style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
        {secret}
      </Code>
      <Group justify="flex-end">
        <CopyButton value={secret}>
          {({ copied, copy }) => (
            <Button variant="default" onClick={copy}>
              {copied ? "Copied" : "Copy"}
            </Button>
          )}
        </CopyButton>
        <Button onClick={onDone}>Done</Button>
      </Group>
    </Stack>
  );
}
