"use client";

import { Button, Skeleton, Stack } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { useAllowed, useDenied } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { NoPermission } from "../shell/no-permission.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { RoleDialog } from "./role-dialog.tsx";
import { RoleTable } from "./role-table.tsx";

/** The organization's custom roles. */
export function RoleList() {
  const trpc = useTRPC();
  const denied = useDenied("member:read");
  const mayWrite = useAllowed("member:write");
  const [creating, dialog] = useDisclosure(false);
  const { data, error, isPending } = useQuery({
    ...trpc.role.list.queryOptions({}),
    enabled: !denied,
  });
  if (denied) {
    return <NoPermission to="read roles" />;
  }
  return (
    <Stack gap="lg">
      <PageHeader
        title="Custom roles"
        text="Sets of permissions for members, in addition to owner, admin, operator, developer and viewer."
      >
        {mayWrite && (
          <Button leftSection={<IconPlus size={16} />} onClick={dialog.open}>
            Create role
          </Button>
        )}
      </PageHeader>
      {error && <ProblemAlert error={error} title="Cannot load the roles" />}
      {isPending && <Skeleton h={120} radius="md" />}
      {data?.items.length === 0 && (
        <Empty
          title="No custom roles"
          text="Create one for members who need other permissions than the built-in roles grant."
        />
      )}
      {data && data.items.length > 0 && <RoleTable roles={data.items} />}
      <RoleDialog opened={creating} edited={undefined} onClose={dialog.close} />
    </Stack>
  );
}
