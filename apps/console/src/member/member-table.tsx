"use client";

import { ActionIcon, Badge, Card, Group, Table, Text } from "@mantine/core";
import type { Member } from "@millrace/contract";
import { type Permission, permissionsOf } from "@millrace/domain";
import { IconPencil, IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { useMayChange } from "../session/use-allowed.ts";
import { WideTable } from "../shell/wide-table.tsx";
import { ChangeRoleDialog } from "./change-role-dialog.tsx";
import { RemoveMemberDialog } from "./remove-member-dialog.tsx";

export function MemberTable({ members }: { members: readonly Member[] }) {
  const trpc = useTRPC();
  const { data: me } = useQuery(trpc.account.me.queryOptions({}));
  const mayChange = useMayChange("member:write");
  const permissionsOfMember = usePermissionsOfMember();
  const [changing, setChanging] = useState<Member>();
  const [removing, setRemoving] = useState<Member>();
  return (
    <Card padding={0}>
      <WideTable label="Members" minWidth={560}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Email</Table.Th>
            <Table.Th>Role</Table.Th>
            <Table.Th>Since</Table.Th>
            <Table.Th w={100} aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {members.map((member) => {
            const isSelf = member.user_id === me?.user?.id;
            return (
              <Table.Tr key={member.id} data-member={member.email}>
                <Table.Td fw={600}>
                  {member.name}{" "}
                  {isSelf && (
                    <Badge variant="default" tt="none">
                      You
                    </Badge>
                  )}
                </Table.Td>
                <Table.Td>{member.email}</Table.Td>
                <Table.Td>
                  <Badge variant="default" tt="none" fw={500}>
                    {member.custom_role?.name ?? member.role}
                  </Badge>
                </Table.Td>
                <Table.Td>
                  <Text fz="sm" className="quiet" title={moment(member.created_at)}>
                    {ago(member.created_at)}
                  </Text>
                </Table.Td>
                <Table.Td>
                  <Actions
                    member={member}
                    mayChange={mayChange(permissionsOfMember(member))}
                    isSelf={isSelf}
                    onChange={() => setChanging(member)}
                    onRemove={() => setRemoving(member)}
                  />
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </WideTable>
      <ChangeRoleDialog member={changing} onClose={() => setChanging(undefined)} />
      <RemoveMemberDialog
        member={removing}
        organization={me?.organization}
        isSelf={removing !== undefined && removing.user_id === me?.user?.id}
        onClose={() => setRemoving(undefined)}
      />
    </Card>
  );
}

interface ActionsProps {
  member: Member;
  mayChange: boolean;
  isSelf: boolean;
  onChange: () => void;
  onRemove: () => void;
}

/**
 * A member's permissions. For a custom role that is not loaded yet, those of the role that it narrows: they are more, so
 * nothing is offered too early.
 */
function usePermissionsOfMember() {
  const trpc = useTRPC();
  const { data: custom } = useQuery(trpc.role.list.queryOptions({}));
  return ({ role, custom_role }: Member): Iterable<Permission> =>
    custom?.items.find(({ id }) => id === custom_role?.id)?.permissions ?? permissionsOf(role);
}

/** Nothing is offered that the API would refuse. */
function Actions({ member, mayChange, isSelf, onChange, onRemove }: ActionsProps) {
  return (
    <Group gap={4} wrap="nowrap" justify="flex-end">
      {mayChange && (
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={`Change the role of ${member.email}`}
          onClick={onChange}
        >
          <IconPencil size={16} />
        </ActionIcon>
      )}
      {(mayChange || isSelf) && (
        <ActionIcon
          variant="subtle"
          color="red"
          aria-label={isSelf ? "Leave the organization" : `Remove ${member.email}`}
          onClick={onRemove}
        >
          <IconTrash size={16} />
        </ActionIcon>
      )}
    </Group>
  );
}
