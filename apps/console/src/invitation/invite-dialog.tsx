"use client";

import { Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import {
  INVITATION_DAYS_DEFAULT,
  INVITATION_DAYS_MAX,
  ROLE_LEAST,
  type Role,
} from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { roleOptions } from "../member/role-words.ts";
import { usePermissions } from "../session/use-allowed.ts";
import { FormActions } from "../shell/form-actions.tsx";
import { SecretDialog } from "../shell/secret-dialog.tsx";

const EXPIRIES = [1, INVITATION_DAYS_DEFAULT, INVITATION_DAYS_MAX].map((days) => ({
  value: String(days),
  label: days === 1 ? "In 1 day" : `In ${days} days`,
}));

/** Invites a person, and shows the link. Millrace sends no mail. */
export function InviteDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const held = usePermissions();
  const invite = useMutation(
    trpc.invitation.create.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.invitation.pathFilter());
        void queryClient.invalidateQueries(trpc.outgoingMail.pathFilter());
      },
    }),
  );
  const form = useForm({
    initialValues: {
      email: "",
      role: ROLE_LEAST as Role,
      days: String(INVITATION_DAYS_DEFAULT),
    },
    validate: { email: (value) => (value.includes("@") ? null : "Enter an email address") },
  });

  function close() {
    invite.reset();
    form.reset();
    onClose();
  }

  return (
    <SecretDialog
      opened={opened}
      secret={invite.data && `${window.location.origin}/invitation#${invite.data.token}`}
      title="Invite member"
      secretTitle="Copy the invitation link"
      note={`Send this link to ${invite.data?.email ?? ""} yourself: Millrace sends no mail. The mail outbox shows it once more.`}
      busy={invite.isPending}
      onClose={close}
    >
      <form
        noValidate
        onSubmit={form.onSubmit(({ email, role, days }) =>
          invite.mutate({ email: email.trim(), role, expires_in_days: Number(days) }),
        )}
      >
        <Stack>
          <TextInput
            label="Email"
            type="email"
            autoComplete="off"
            data-autofocus
            {...form.getInputProps("email")}
          />
          <Select
            label="Role"
            data={roleOptions(held)}
            allowDeselect={false}
            {...form.getInputProps("role")}
          />
          <Select
            label="Link expires"
            data={EXPIRIES}
            allowDeselect={false}
            {...form.getInputProps("days")}
          />
          <FormActions
            submit="Create invitation"
            busy={invite.isPending}
            error={invite.error}
            cancelDisabled={invite.isPending}
            onCancel={close}
          />
        </Stack>
      </form>
    </SecretDialog>
  );
}
