"use client";

import type { Member } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";

interface DialogProps {
  /** The one to remove; the dialog is closed without it. */
  member: Member | undefined;
  organization: { readonly id: string; readonly name: string } | undefined;
  /** Whether members leave by themselves. */
  isSelf: boolean;
  onClose: () => void;
}

export function RemoveMemberDialog({ member, organization, isSelf, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const remove = useMutation(
    trpc.member.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.member.pathFilter());
        onClose();
      },
    }),
  );
  const leave = useMutation(
    // The next page belongs to another organization, or to none.
    trpc.account.leave.mutationOptions({ onSuccess: () => window.location.assign("/clusters") }),
  );
  const name = isSelf ? organization?.name : member?.email;
  return (
    <ConfirmByName
      what={isSelf ? "organization" : "member"}
      verb={isSelf ? "Leave" : "Remove"}
      name={member && name}
      text={
        isSelf
          ? "You lose access immediately, and come back only by an invitation."
          : "The member loses access immediately. API keys that the member created keep working."
      }
      busy={remove.isPending || leave.isPending}
      error={remove.error ?? leave.error}
      onConfirm={() => {
        if (!member || !organization) return;
        if (isSelf) leave.mutate({ organization_id: organization.id });
        else remove.mutate({ member_id: member.id });
      }}
      onClose={() => {
        remove.reset();
        leave.reset();
        onClose();
      }}
    />
  );
}
