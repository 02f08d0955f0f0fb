"use client";

import {
  ActionIcon,
  Badge,
  Button,
  Card,
  Code,
  Group,
  Skeleton,
  Stack,
  Table,
  Text,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ApiKey } from "@millrace/contract";
import { SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX } from "@millrace/domain";
import { IconPlus, IconRefresh, IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ago, day } from "../format/time.ts";
import { useAllowed, useDenied, useMayChange } from "../session/use-allowed.ts";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { Empty } from "../shell/empty.tsx";
import { NoPermission } from "../shell/no-permission.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { WideTable } from "../shell/wide-table.tsx";
import { CreateApiKeyDialog } from "./create-api-key-dialog.tsx";
import { limitsOf, permissionsOfKey } from "./key-limits.ts";
import { RotateApiKeyDialog } from "./rotate-api-key-dialog.tsx";

/** The organization's API keys. */
export function ApiKeyList() {
  const trpc = useTRPC();
  const denied = useDenied("apikey:read");
  const mayWrite = useAllowed("apikey:write");
  const [creating, dialog] = useDisclosure(false);
  const [revoking, setRevoking] = useState<ApiKey>();
  const [rotating, setRotating] = useState<ApiKey>();
  const { data, error, isPending } = useQuery({
    ...trpc.apiKey.list.queryOptions({ page_size: 200 }),
    enabled: !denied,
  });
  if (denied) {
    return <NoPermission to="read API keys" />;
  }
  return (
    <Stack gap="lg">
      <PageHeader
        title="API keys"
        text={
          <>
            For scripts and Terraform: <Code>Authorization: Bearer …</Code>
          </>
        }
      >
        {mayWrite && (
          <Button leftSection={<IconPlus size={16} />} onClick={dialog.open}>
            Create key
          </Button>
        )}
      </PageHeader>
      {error && <ProblemAlert error={error} title="Cannot load the API keys" />}
      {isPending && <Skeleton h={120} radius="md" />}
      {data?.items.length === 0 && (
        <Empty title="No API keys" text="Programs use a key to act for your organization." />
      )}
      {data && data.items.length > 0 && (
        <KeyTable keys={data.items} onRevoke={setRevoking} onRotate={setRotating} />
      )}
      <CreateApiKeyDialog opened={creating} onClose={dialog.close} />
      <RotateApiKeyDialog apiKey={rotating} onClose={() => setRotating(undefined)} />
      <RevokeDialog apiKey={revoking} onClose={() => setRevoking(undefined)} />
    </Stack>
  );
}

interface KeyTableProps {
  keys: ApiKey[];
  onRevoke: (key: ApiKey) => void;
  onRotate: (key: ApiKey) => void;
}

function KeyTable({ keys, onRevoke, onRotate }: KeyTableProps) {
  const mayChange = useMayChange("apikey:write");
  const accounts = useAccountNames();
  return (
    <Card padding={0}>
      <WideTable label="API keys" minWidth={720}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Key</Table.Th>
            <Table.Th>Role</Table.Th>
            <Table.Th>Last used</Table.Th>
            <Table.Th>Expires</Table.Th>
            <Table.Th>Created</Table.Th>
            <Table.Th w={100} aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {keys.map((key) => (
            <Table.Tr key={key.id}>
              <Table.Td>
                <Text fz="sm" fw={600}>
                  {key.name}
                </Text>
                {key.service_account_id !== null && (
                  <Text fz="xs" className="quiet">
                    of {accounts.get(key.service_account_id) ?? "a service account"}
                  </Text>
                )}
              </Table.Td>
              <Table.Td>
                <Code>{key.hint}</Code>
              </Table.Td>
              <Table.Td>
                <Badge variant="default" tt="none" fw={500}>
                  {key.role}
                </Badge>
                {limitsOf(key) !== "" && (
                  <Text fz="xs" className="quiet">
                    {limitsOf(key)}
                  </Text>
                )}
              </Table.Td>
              <Table.Td>{key.last_used_at ? ago(key.last_used_at) : "never"}</Table.Td>
              <Table.Td>{key.expires_at ? day(key.expires_at) : "never"}</Table.Td>
              <Table.Td>{ago(key.created_at)}</Table.Td>
              <Table.Td>
                {mayChange(permissionsOfKey(key)) && (
                  <Group gap={4} wrap="nowrap" justify="flex-end">
                    <ActionIcon
                      variant="subtle"
                      color="gray"
                      aria-label={`Rotate key ${key.name}`}
                      onClick={() => onRotate(key)}
                    >
                      <IconRefresh size={16} />
                    </ActionIcon>
                    <ActionIcon
                      variant="subtle"
                      color="red"
                      aria-label={`Revoke key ${key.name}`}
                      onClick={() => onRevoke(key)}
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
    </Card>
  );
}

/** Names of the service accounts by id. */
function useAccountNames(): ReadonlyMap<string, string> {
  const trpc = useTRPC();
  const { data } = useQuery(
    trpc.serviceAccount.list.queryOptions({ page_size: SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX }),
  );
  return new Map(data?.items.map(({ id, name }) => [id, name]));
}

function RevokeDialog({ apiKey, onClose }: { apiKey: ApiKey | undefined; onClose: () => void }) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const revoke = useMutation(
    trpc.apiKey.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.apiKey.list.pathFilter());
        onClose();
      },
    }),
  );
  return (
    <ConfirmByName
      what="key"
      verb="Revoke"
      name={apiKey?.name}
      text="Programs that use this key are rejected immediately."
      busy={revoke.isPending}
      error={revoke.error}
      onConfirm={() => apiKey && revoke.mutate({ api_key_id: apiKey.id })}
      onClose={() => {
        revoke.reset();
        onClose();
      }}
    />
  );
}
