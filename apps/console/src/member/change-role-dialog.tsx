"use client";

import { Modal, Select, Stack } from "@mantine/core";
import type { Member } from "@millrace/contract";
import { isRole, ROLE_LEAST } from "@millrace/domain";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { holdsAll } from "../session/holds-all.ts";
import { usePermissions } from "../session/use-allowed.ts";
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
  const options = useOptions();
  /** A role, or the id of a custom one. */
  const [role, setRole] = useState<string>(ROLE_LEAST);
  const present = member && (member.custom_role?.id ?? member.role);
  useEffect(() => {
    if (present) setRole(present);
  }, [present]);
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
    if (!member) return;
    const given = isRole(role) ? { role } : { custom_role_id: role };
    change.mutate({ member_id: member.id, ...given });
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
            data={options}
            value={role}
            allowDeselect={false}
            onChange={(value) => value && setRole(value)}
          />
          <FormActions
            submit="Change role"
            busy={change.isPending}
            disabled={role === present}
            error={change.error}
            onCancel={close}
          />
        </Stack>
      </form>
    </Modal>
  );
}

/** What the user can give away: roles up to their own, and custom roles with no more than they have. */
function useOptions() {
  const trpc = useTRPC();
  const held = usePermissions();
  const { data: custom } = useQuery(trpc.role.list.queryOptions({}));
  const mine = custom?.items.filter(({ permissions }) => held && holdsAll(held, permissions));
  return [
    ...roleOptions(held),
    ...(mine ?? []).map(({ id, name }) => ({ value: id, label: name })),
  ];
}
