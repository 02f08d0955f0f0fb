"use client";

import { Checkbox, Modal, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IMPERSONATION_MINUTES, IMPERSONATION_REASON_LENGTH_MIN } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { FormActions } from "../shell/form-actions.tsx";
import { beginImpersonation, type PlatformOrganization } from "./platform-api.ts";

interface ImpersonateDialogProps {
  /** Undefined while the dialog is closed. */
  organization: PlatformOrganization | undefined;
  /** Whether the installation allows write access. */
  mayWrite: boolean;
  onClose: () => void;
}

export function ImpersonateDialog({ organization, mayWrite, onClose }: ImpersonateDialogProps) {
  const router = useRouter();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: { email: "", reason: "", write: false },
    validate: {
      reason: (reason) =>
        reason.trim().length >= IMPERSONATION_REASON_LENGTH_MIN
          ? null
          : `Enter at least ${IMPERSONATION_REASON_LENGTH_MIN} characters`,
    },
  });
  const begin = useMutation({
    mutationFn: beginImpersonation,
    onSuccess: () => {
      queryClient.clear();
      router.replace("/clusters");
    },
  });

  function close() {
    begin.reset();
    form.reset();
    onClose();
  }

  return (
    <Modal
      opened={organization !== undefined}
      onClose={close}
      title={`Impersonate a member of ${organization?.name ?? ""}`}
    >
      <form
        noValidate
        onSubmit={form.onSubmit(({ email, reason, write }) => {
          if (organization === undefined) return;
          const member = email.trim();
          begin.mutate({
            ...{ organization_id: organization.id, reason: reason.trim(), write },
            ...(member !== "" && { member_email: member }),
          });
        })}
      >
        <Stack>
          <Text fz="sm">
            For {IMPERSONATION_MINUTES} minutes, you see what the member sees, except records, the
            mail outbox and the access review. The organization's audit log shows the reason.
          </Text>
          <TextInput
            label="Member's email"
            description="Leave empty for the first owner"
            type="email"
            autoComplete="off"
            {...form.getInputProps("email")}
          />
          <Textarea
            label="Reason"
            description="For example, a ticket number"
            data-autofocus
            {...form.getInputProps("reason")}
          />
          {mayWrite && (
            <Checkbox label="Write access" {...form.getInputProps("write", { type: "checkbox" })} />
          )}
          <FormActions
            submit="Begin impersonation"
            busy={begin.isPending}
            error={begin.error}
            cancelDisabled={begin.isPending}
            onCancel={close}
          />
        </Stack>
      </form>
    </Modal>
  );
}
