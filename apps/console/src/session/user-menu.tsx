"use client";

import { Avatar, Menu, Text, UnstyledButton } from "@mantine/core";
import { IconBuilding, IconLogout, IconSettings, IconUser } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import Link from "next/link";
import { useRouter } from "next/navigation";
import { useTRPC } from "../api/client.tsx";
import { enterOrganization } from "./organization.ts";
import { signOut } from "./session.ts";

/** Who is signed in, for which organization, and the way out. */
export function UserMenu() {
  const trpc = useTRPC();
  const router = useRouter();
  const queryClient = useQueryClient();
  const { data: me } = useQuery(trpc.account.me.queryOptions({}));
  const email = me?.user?.email ?? "";

  async function leave() {
    await signOut();
    queryClient.clear();
    router.replace("/sign-in");
  }

  return (
    <Menu position="bottom-end" width={240}>
      <Menu.Target>
        <UnstyledButton aria-label="Account">
          <Avatar color="race" radius="xl" size={34}>
            <IconUser size={18} />
          </Avatar>
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          <Text fz="sm" fw={600} truncate>
            {email}
          </Text>
          <Text fz="xs" className="quiet" truncate>
            {me?.organization.name}
          </Text>
        </Menu.Label>
        <Menu.Divider />
        {me && me.organizations.length > 1 && (
          <>
            <Menu.Label>Organization</Menu.Label>
            {me.organizations.map(({ id, name }) => (
              <Menu.Item
                key={id}
                leftSection={<IconBuilding size={16} />}
                disabled={id === me.organization.id}
                onClick={() => enterOrganization(id)}
              >
                {name}
              </Menu.Item>
            ))}
            <Menu.Divider />
          </>
        )}
        <Menu.Item component={Link} href="/settings" leftSection={<IconSettings size={16} />}>
          Settings
        </Menu.Item>
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={leave}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
