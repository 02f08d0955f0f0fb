"use client";

import { ActionIcon, Badge, Card, Stack, Table, Title } from "@mantine/core";
import type { Invitation } from "@millrace/contract";
import { permissionsOf } from "@millrace/domain";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { day } from "../format/time.ts";
import { useMayChange } from "../session/use-allowed.ts";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { WideTable } from "../shell/wide-table.tsx";

/** More are not pending at a time. */
const SHOWN_MAX = 100;

/** Invitations that nobody has accepted yet; nothing where there are none. */
export function InvitationList() {
  const trpc = useTRPC();
  const mayChange = useMayChange("member:write");
  const [revoking, setRevoking] = useState<Invitation>();
  const { data, error } = useQuery(trpc.invitation.list.queryOptions({ page_size: SHOWN_MAX }));
  if (error) return <ProblemAlert error={error} title="Cannot load the invitations" />;
  if (!data || data.items.length === 0) return null;
  return (
    <Stack gap="sm">
      <Title order={2} fz="h4">
        Pending invitations
      </Title>
      <Card padding={0}>
        <WideTable label="Pending invitations" minWidth={560}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Email</Table.Th>
              <Table.Th>Role</Table.Th>
              <Table.Th>Invited by</Table.Th>
              <Table.Th>Expires</Table.Th>
              <Table.Th w={60} aria-label="Actions" />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {data.items.map((invitation) => (
              <Table.Tr key={invitation.id} data-invitation={invitation.email}>
                <Table.Td fw={600}>{invitation.email}</Table.Td>
                <Table.Td>
                  <Badge variant="default" tt="none" fw={500}>
                    {invitation.role}
                  </Badge>
                </Table.Td>
                <Table.Td>{invitation.invited_by.name}</Table.Td>
                <Table.Td>{day(invitation.expires_at)}</Table.Td>
                <Table.Td>
                  {mayChange(permissionsOf(invitation.role)) && (
                    <ActionIcon
                      variant="subtle"
                      color="red"
                      aria-label={`Revoke invitation ${invitation.email}`}
                      onClick={() => setRevoking(invitation)}
                    >
                      <IconTrash size={16} />
                    </ActionIcon>
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </WideTable>
      </Card>
      <RevokeDialog invitation={revoking} onClose={() => setRevoking(undefined)} />
    </Stack>
  );
}

function RevokeDialog(props: { invitation: Invitation | undefined; onClose: () => void }) {
  const { invitation, onClose } = props;
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const revoke = useMutation(
    trpc.invitation.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.invitation.pathFilter());
        onClose();
      },
    }),
  );
  return (
    <ConfirmByName
      what="invitation"
      verb="Revoke"
      name={invitation?.email}
      text="The link in the invitation stops working."
      busy={revoke.isPending}
      error={revoke.error}
      onConfirm={() => invitation && revoke.mutate({ invitation_id: invitation.id })}
      onClose={() => {
        revoke.reset();
        onClose();
      }}
    />
  );
}
