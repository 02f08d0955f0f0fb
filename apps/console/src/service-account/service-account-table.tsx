"use client";

import { ActionIcon, Badge, Card, Group, Table, Text } from "@mantine/core";
import type { ServiceAccount } from "@millrace/contract";
import { permissionsOf } from "@millrace/domain";
import { IconKey, IconPlayerPause, IconPlayerPlay, IconTrash } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { CreateApiKeyDialog } from "../api-key/create-api-key-dialog.tsx";
import { ago, moment } from "../format/time.ts";
import { useMayChange } from "../session/use-allowed.ts";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { WideTable } from "../shell/wide-table.tsx";

export function ServiceAccountTable({ accounts }: { accounts: readonly ServiceAccount[] }) {
  const [keyed, setKeyed] = useState<ServiceAccount>();
  const [deleting, setDeleting] = useState<ServiceAccount>();
  return (
    <Card padding={0}>
      <WideTable label="Service accounts" minWidth={640}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Role</Table.Th>
            <Table.Th>Status</Table.Th>
            <Table.Th>Created</Table.Th>
            <Table.Th w={130} aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {accounts.map((account) => (
            <Table.Tr key={account.id} data-service-account={account.name}>
              <Table.Td>
                <Text fz="sm" fw={600}>
                  {account.name}
                </Text>
                {account.description !== "" && (
                  <Text fz="xs" className="quiet">
                    {account.description}
                  </Text>
                )}
              </Table.Td>
              <Table.Td>
                <Badge variant="default" tt="none" fw={500}>
                  {account.role}
                </Badge>
              </Table.Td>
              <Table.Td>{account.disabled ? "Disabled" : "Active"}</Table.Td>
              <Table.Td>
                <Text fz="sm" className="quiet" title={moment(account.created_at)}>
                  {ago(account.created_at)}
                </Text>
              </Table.Td>
              <Table.Td>
                <Actions
                  account={account}
                  onKey={() => setKeyed(account)}
                  onDelete={() => setDeleting(account)}
                />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </WideTable>
      <CreateApiKeyDialog
        opened={keyed !== undefined}
        account={keyed}
        onClose={() => setKeyed(undefined)}
      />
      <DeleteDialog account={deleting} onClose={() => setDeleting(undefined)} />
    </Card>
  );
}

interface ActionsProps {
  account: ServiceAccount;
  onKey: () => void;
  onDelete: () => void;
}

/** Nothing is offered that the API would refuse. */
function Actions({ account, onKey, onDelete }: ActionsProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const mayChange = useMayChange("apikey:write");
  const update = useMutation(
    trpc.serviceAccount.update.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.serviceAccount.pathFilter()),
    }),
  );
  if (!mayChange(permissionsOf(account.role))) return null;
  const verb = account.disabled ? "Enable" : "Disable";
  return (
    <>
      <Group gap={4} wrap="nowrap" justify="flex-end">
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={`Create a key for ${account.name}`}
          onClick={onKey}
        >
          <IconKey size={16} />
        </ActionIcon>
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={`${verb} ${account.name}`}
          loading={update.isPending}
          onClick={() =>
            update.mutate({ service_account_id: account.id, disabled: !account.disabled })
          }
        >
          {account.disabled ? <IconPlayerPlay size={16} /> : <IconPlayerPause size={16} />}
        </ActionIcon>
        <ActionIcon
          variant="subtle"
          color="red"
          aria-label={`Delete ${account.name}`}
          onClick={onDelete}
        >
          <IconTrash size={16} />
        </ActionIcon>
      </Group>
      {update.error && (
        <ProblemAlert error={update.error} title={`Cannot change ${account.name}`} />
      )}
    </>
  );
}

function DeleteDialog(props: { account: ServiceAccount | undefined; onClose: () => void }) {
  const { account, onClose } = props;
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const remove = useMutation(
    trpc.serviceAccount.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.serviceAccount.pathFilter());
        void queryClient.invalidateQueries(trpc.apiKey.pathFilter());
        onClose();
      },
    }),
  );
  return (
    <ConfirmByName
      what="service account"
      name={account?.name}
      text="Its API keys are revoked. Programs that use them are rejected immediately."
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() => account && remove.mutate({ service_account_id: account.id })}
      onClose={() => {
        remove.reset();
        onClose();
      }}
    />
  );
}
