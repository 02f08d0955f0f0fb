"use client";

import { Stack, Tabs, Title } from "@mantine/core";
import { usePathname, useRouter } from "next/navigation";
import type { ReactNode } from "react";

const TABS = [
  ["members", "Members"],
  ["roles", "Roles"],
  ["service-accounts", "Service accounts"],
  ["api-keys", "API keys"],
  ["sessions", "Sessions"],
  ["security", "Security"],
  ["single-sign-on", "Single sign-on"],
  ["access-review", "Access review"],
  ["mail-outbox", "Mail outbox"],
] as const;

/** The frame of the pages about people and keys. */
export function SettingsFrame({ children }: { children: ReactNode }) {
  const router = useRouter();
  const here = usePathname().split("/")[2] ?? "members";
  return (
    <Stack gap="lg">
      <Title order={1} fz="h2">
        Settings
      </Title>
      <Tabs value={here} onChange={(tab) => router.push(`/settings/${tab}`)}>
        <Tabs.List>
          {TABS.map(([tab, label]) => (
            <Tabs.Tab key={tab} value={tab}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={here} pt="lg">
          {children}
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}
