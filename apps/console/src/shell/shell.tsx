"use client";

import { Anchor, AppShell, Container, Group } from "@mantine/core";
import Link from "next/link";
import { usePathname } from "next/navigation";
import type { ReactNode } from "react";
import { UserMenu } from "../session/user-menu.tsx";
import { ColorSchemeMenu } from "./color-scheme-menu.tsx";
import { Logo } from "./logo.tsx";

const PLACES = [
  ["/clusters", "Clusters"],
  ["/environments", "Environments"],
  ["/api-keys", "API keys"],
] as const;

/** The frame around every page of a signed-in user. */
export function Shell({ children }: { children: ReactNode }) {
  const path = usePathname();
  return (
    <AppShell header={{ height: 60 }}>
      <AppShell.Header>
        <Container size="xl" h="100%" px="lg">
          <Group h="100%" justify="space-between" wrap="nowrap">
            <Group gap="xl" wrap="nowrap">
              <Anchor
                component={Link}
                href="/clusters"
                underline="never"
                c="inherit"
                aria-label="Millrace"
              >
                <Logo shrinks />
              </Anchor>
              <Group component="nav" gap="lg" wrap="nowrap" aria-label="Main">
                {PLACES.map(([href, label]) => {
                  const here = path.startsWith(href);
                  return (
                    <Anchor
                      key={href}
                      component={Link}
                      href={href}
                      fz="sm"
                      fw={here ? 600 : 400}
                      c={here ? "race" : "inherit"}
                      aria-current={here ? "page" : undefined}
                    >
                      {label}
                    </Anchor>
                  );
                })}
              </Group>
            </Group>
            <Group gap="sm" wrap="nowrap">
              <ColorSchemeMenu />
              <UserMenu />
            </Group>
          </Group>
        </Container>
      </AppShell.Header>
      <AppShell.Main>
        <Container size="xl" p="lg">
          {children}
        </Container>
      </AppShell.Main>
    </AppShell>
  );
}
