"use client";

import { Select, Stack, Text } from "@mantine/core";
import type { ApiKey } from "@millrace/contract";
import { API_KEY_OVERLAP_HOURS_DEFAULT, API_KEY_OVERLAP_HOURS_MAX } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { SecretDialog } from "../shell/secret-dialog.tsx";

const OVERLAPS = [0, API_KEY_OVERLAP_HOURS_DEFAULT, API_KEY_OVERLAP_HOURS_MAX].map((hours) => ({
  value: String(hours),
  label: hours === 0 ? "Immediately" : hours === 24 ? "In 24 hours" : `In ${hours / 24} days`,
}));

interface DialogProps {
  /** The one to rotate; the dialog is closed without it. */
  apiKey: ApiKey | undefined;
  onClose: () => void;
}

/** Gives a key a new secret; programs have time to change to it. */
export function RotateApiKeyDialog({ apiKey, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const [hours, setHours] = useState(String(API_KEY_OVERLAP_HOURS_DEFAULT));
  const rotate = useMutation(
    trpc.apiKey.rotate.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.apiKey.list.pathFilter()),
    }),
  );

  function close() {
    rotate.reset();
    onClose();
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    if (!apiKey) return;
    rotate.mutate({ api_key_id: apiKey.id, overlap_hours: Number(hours) });
  }

  return (
    <SecretDialog
      opened={apiKey !== undefined}
      secret={rotate.data?.secret}
      title={`Rotate key ${apiKey?.name ?? ""}`}
      secretTitle="Copy your API key"
      note="Copy the key now. It is not shown again."
      busy={rotate.isPending}
      onClose={close}
    >
      <form onSubmit={submit}>
        <Stack>
          <Text fz="sm">The key gets a new secret. Role, limits and expiry stay.</Text>
          <Select
            label="The present secret stops working"
            data={OVERLAPS}
            value={hours}
            allowDeselect={false}
            onChange={(value) => value && setHours(value)}
          />
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
