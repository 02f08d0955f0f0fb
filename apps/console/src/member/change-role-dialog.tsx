"use client";

import { Modal, Select, Stack } from "@mantine/core";
import type { Member } from "@millrace/contract";
import type { Role } from "@millrace/domain";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { roleOptions } from "./role-words.ts";

interface DialogProps {
  /** The one to change; the dialog is closed without it. */
  member: Member | undefined;
  onClose: () => void;
}

export function ChangeRoleDialog({ member, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const { data: me } = useQuery(trpc.account.me.queryOptions({}));
  const [role, setRole] = useState<Role>("viewer");
  useEffect(() => member && setRole(member.role), [member]);
  const change = useMutation(
    trpc.member.update.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.member.pathFilter());
        void queryClient.invalidateQueries(trpc.account.pathFilter());
        close();
      },
    }),
  );

  function close() {
    change.reset();
    onClose();
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    if (member) change.mutate({ member_id: member.id, role });
  }

  return (
    <Modal
      opened={member !== undefined}
      onClose={close}
      title={`Change the role of ${member?.email ?? ""}`}
    >
      <form onSubmit={submit}>
        <Stack>
          <Select
            label="Role"
            data={roleOptions(me?.role)}
            value={role}
            allowDeselect={false}
            onChange={(value) => value && setRole(value as Role)}
          />
          <FormActions
            submit="Change role"
            busy={change.isPending}
            disabled={role === member?.role}
            error={change.error}
            onCancel={close}
          />
        </Stack>
      </form>
    </Modal>
  );
}
