"use client";

import { Modal, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";

export function RemoveSingleSignOnDialog(props: { opened: boolean; onClose: () => void }) {
  const { opened, onClose } = props;
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const remove = useMutation(
    trpc.singleSignOn.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.singleSignOn.pathFilter());
        onClose();
      },
    }),
  );
  return (
    <Modal opened={opened} onClose={onClose} title="Remove single sign-on">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          remove.mutate({});
        }}
      >
        <Stack>
          <Text fz="sm">
            Sessions that single sign-on opened end immediately. Members who have no password cannot
            sign in until you set it up again.
          </Text>
          <FormActions
            submit="Remove"
            color="red"
            busy={remove.isPending}
            error={remove.error}
            onCancel={onClose}
          />
        </Stack>
      </form>
    </Modal>
  );
}
