"use client";

import { ActionIcon, Card, Group, Table, Text } from "@mantine/core";
import type { CustomRole } from "@millrace/contract";
import { IconPencil, IconTrash } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { useMayChange } from "../session/use-allowed.ts";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { WideTable } from "../shell/wide-table.tsx";
import { RoleDialog } from "./role-dialog.tsx";

export function RoleTable({ roles }: { roles: readonly CustomRole[] }) {
  const [editing, setEditing] = useState<CustomRole>();
  const [deleting, setDeleting] = useState<CustomRole>();
  const mayChange = useMayChange("member:write");
  return (
    <Card padding={0}>
      <WideTable label="Custom roles" minWidth={560}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Permissions</Table.Th>
            <Table.Th w={100} aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {roles.map((role) => (
            <Table.Tr key={role.id} data-role={role.name}>
              <Table.Td>
                <Text fz="sm" fw={600}>
                  {role.name}
                </Text>
                <Text fz="xs" className="quiet">
                  {role.description}
                </Text>
              </Table.Td>
              <Table.Td>{role.permissions.join(", ")}</Table.Td>
              <Table.Td>
                {mayChange(role.permissions) && (
                  <Group gap={4} wrap="nowrap" justify="flex-end">
                    <ActionIcon
                      variant="subtle"
                      color="gray"
                      aria-label={`Edit role ${role.name}`}
                      onClick={() => setEditing(role)}
                    >
                      <IconPencil size={16} />
                    </ActionIcon>
                    <ActionIcon
                      variant="subtle"
                      color="red"
                      aria-label={`Delete role ${role.name}`}
                      onClick={() => setDeleting(role)}
                    >
                      <IconTrash size={16} />
                    </ActionIcon>
                  </Group>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </WideTable>
      <RoleDialog
        opened={editing !== undefined}
        edited={editing}
        onClose={() => setEditing(undefined)}
      />
      <DeleteDialog role={deleting} onClose={() => setDeleting(undefined)} />
    </Card>
  );
}

function DeleteDialog({ role, onClose }: { role: CustomRole | undefined; onClose: () => void }) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const remove = useMutation(
    trpc.role.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.role.pathFilter());
        onClose();
      },
    }),
  );
  return (
    <ConfirmByName
      what="role"
      name={role?.name}
      text="A role can be deleted only if no member has it."
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() => role && remove.mutate({ role_id: role.id })}
      onClose={() => {
        remove.reset();
        onClose();
      }}
    />
  );
}
