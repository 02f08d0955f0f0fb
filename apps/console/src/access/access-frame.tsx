"use client";

import { Tabs } from "@mantine/core";
import { usePathname, useRouter } from "next/navigation";
import type { ReactNode } from "react";

const TABS = [
  ["users", "Users"],
  ["acls", "ACLs"],
  ["quotas", "Quotas"],
] as const;

/** The frame of the pages about who may do what in a cluster, and how much. */
export function AccessFrame({ clusterId, children }: { clusterId: string; children: ReactNode }) {
  const router = useRouter();
  const here = usePathname().split("/")[4] ?? "users";
  const open = (tab: string | null) =>
    router.push(`/clusters/${clusterId}/access${tab === "users" ? "" : `/${tab}`}`);
  return (
    <Tabs value={here} onChange={open} variant="pills">
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
  );
}
