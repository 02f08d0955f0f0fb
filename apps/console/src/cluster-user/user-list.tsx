"use client";

import {
  ActionIcon,
  Badge,
  Button,
  Card,
  Group,
  Menu,
  Skeleton,
  Stack,
  Table,
  Text,
  Tooltip,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ClusterUser } from "@millrace/contract";
import { INITIAL_CLUSTER_USER } from "@millrace/domain";
import { IconDots, IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { useLastError } from "../api/last-error.ts";
import { BrokerDown, useBrokerDown } from "../cluster/broker-down.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { CreateUserDialog } from "./create-user-dialog.tsx";
import { DeleteUserDialog } from "./delete-user-dialog.tsx";
import { type Mechanism, RemoveMechanismDialog } from "./remove-mechanism-dialog.tsx";
import { RotateUserDialog } from "./rotate-user-dialog.tsx";

/** The users that Kafka clients of the cluster sign in as. */
export function UserList({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const [creating, dialog] = useDisclosure(false);
  const [rotating, setRotating] = useState<ClusterUser>();
  const [removal, setRemoval] = useState<{ user: ClusterUser; mechanism: Mechanism }>();
  const [deleting, setDeleting] = useState<string>();
  const mayWrite = useAllowed("user:write");
  const down = useBrokerDown(clusterId);
  const query = useInfiniteQuery(
    trpc.user.list.infiniteQueryOptions(
      { cluster_id: clusterId },
      { getNextPageParam: (page) => page.next_page_token, retry: false, enabled: !down },
    ),
  );
  const { data, isPending, fetchNextPage, hasNextPage, isFetchingNextPage } = query;
  const error = useLastError(query);
  const users = data?.pages.flatMap((page) => page.items) ?? [];
  const create = mayWrite && (
    <Button leftSection={<IconPlus size={16} />} onClick={dialog.open}>
      Create user
    </Button>
  );
  if (down) return <BrokerDown what="Users" />;
  return (
    <Stack gap="md">
      {users.length > 0 && (
        <Group justify="space-between">
          <Text className="quiet" fz="sm">
            Kafka clients sign in as these users with SCRAM. ACLs say what a user may do.
          </Text>
          {create}
        </Group>
      )}
      {error != null && <ProblemAlert error={error} title="Cannot load the users" />}
      {isPending && error == null && <Skeleton h={120} radius="md" />}
      {data && users.length === 0 && (
        <Empty
          title="No users yet"
          text="Kafka clients sign in as a user, with SCRAM-SHA-256 or SCRAM-SHA-512."
        >
          {create}
        </Empty>
      )}
      {users.length > 0 && (
        <UserTable
          users={users}
          mayWrite={mayWrite}
          onRotate={setRotating}
          onRemove={(user, mechanism) => setRemoval({ user, mechanism })}
          onDelete={setDeleting}
        />
      )}
      {hasNextPage && <ShowMore loading={isFetchingNextPage} onClick={() => fetchNextPage()} />}
      <CreateUserDialog clusterId={clusterId} opened={creating} onClose={dialog.close} />
      <RotateUserDialog
        clusterId={clusterId}
        user={rotating}
        onClose={() => setRotating(undefined)}
      />
      <RemoveMechanismDialog
        clusterId={clusterId}
        removal={removal}
        onClose={() => setRemoval(undefined)}
      />
      <DeleteUserDialog
        clusterId={clusterId}
        name={deleting}
        onClose={() => setDeleting(undefined)}
      />
    </Stack>
  );
}

interface UserActions {
  onRotate: (user: ClusterUser) => void;
  onRemove: (user: ClusterUser, mechanism: Mechanism) => void;
  onDelete: (name: string) => void;
}

interface UserTableProps extends UserActions {
  users: readonly ClusterUser[];
  mayWrite: boolean;
}

/** The broker's file names this user in `super.users`. */
function SuperUserBadge() {
  return (
    <Tooltip label="May do everything: ACLs do not limit it">
      <Badge variant="default" tt="none" fw={500} ff="text">
        Super user
      </Badge>
    </Tooltip>
  );
}

function UserTable({ users, mayWrite, ...actions }: UserTableProps) {
  return (
    <Card padding={0}>
      <Table horizontalSpacing="lg">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Mechanisms</Table.Th>
            {mayWrite && <Table.Th w={60} aria-label="Actions" />}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {users.map((user) => (
            <Table.Tr key={user.name}>
              <Table.Td ff="monospace" fz="sm" style={{ overflowWrap: "anywhere" }}>
                <Group gap="xs">
                  {user.name}
                  {user.name === INITIAL_CLUSTER_USER && <SuperUserBadge />}
                </Group>
              </Table.Td>
              <Table.Td>
                <Group gap={4}>
                  {user.mechanisms.map((mechanism) => (
                    <Badge key={mechanism} variant="default" tt="none" fw={500}>
                      {mechanism}
                    </Badge>
                  ))}
                </Group>
              </Table.Td>
              {mayWrite && (
                <Table.Td>
                  <UserMenu user={user} {...actions} />
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}

function UserMenu(props: UserActions & { user: ClusterUser }) {
  const { user, onRotate, onRemove, onDelete } = props;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={`Actions for user ${user.name}`}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => onRotate(user)}>Rotate password</Menu.Item>
        {user.mechanisms.length > 1 &&
          user.mechanisms.map((mechanism) => (
            <Menu.Item key={mechanism} onClick={() => onRemove(user, mechanism)}>
              Remove {mechanism}
            </Menu.Item>
          ))}
        <Menu.Item color="red" onClick={() => onDelete(user.name)}>
          Delete user
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
