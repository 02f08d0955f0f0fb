"use client";

import { Button, Skeleton, Stack } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { InvitationList } from "../invitation/invitation-list.tsx";
import { InviteDialog } from "../invitation/invite-dialog.tsx";
import { useAllowed, useDenied } from "../session/use-allowed.ts";
import { NoPermission } from "../shell/no-permission.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { MemberTable } from "./member-table.tsx";

/** More members than this are not looked at one by one. */
const SHOWN_MAX = 1_000;

/** Who belongs to the organization, and who is invited. */
export function MembersPage() {
  const trpc = useTRPC();
  const denied = useDenied("member:read");
  const mayWrite = useAllowed("member:write");
  const [inviting, dialog] = useDisclosure(false);
  const { data, error, isPending } = useQuery({
    ...trpc.member.list.queryOptions({ page_size: SHOWN_MAX }),
    enabled: !denied,
  });
  if (denied) return <NoPermission to="read members" />;
  return (
    <Stack gap="lg">
      <PageHeader
        title="Members"
        text={
          mayWrite
            ? "People who can sign in to this organization."
            : "People who can sign in to this organization. Owners and admins can invite others."
        }
      >
        {mayWrite && (
          <Button leftSection={<IconPlus size={16} />} onClick={dialog.open}>
            Invite member
          </Button>
        )}
      </PageHeader>
      {error && <ProblemAlert error={error} title="Cannot load the members" />}
      {isPending && <Skeleton h={120} radius="md" />}
      {data && <MemberTable members={data.items} />}
      <InvitationList />
      <InviteDialog opened={inviting} onClose={dialog.close} />
    </Stack>
  );
}
