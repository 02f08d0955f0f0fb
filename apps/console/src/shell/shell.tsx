"use client";

import { Anchor, AppShell, Container, Flex, Group } from "@mantine/core";
import Link from "next/link";
import { usePathname } from "next/navigation";
import type { ReactNode } from "react";
import { ImpersonationBanner } from "../platform/impersonation-banner.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { UserMenu } from "../session/user-menu.tsx";
import { ColorSchemeMenu } from "./color-scheme-menu.tsx";
import { Logo } from "./logo.tsx";

const PLACES = [
  ["/clusters", "Clusters"],
  ["/environments", "Environments"],
  ["/audit", "Audit log"],
  ["/settings", "Settings"],
] as const;

/** The frame around every page of a signed-in user. */
export function Shell({ children }: { children: ReactNode }) {
  const path = usePathname();
  const readsAudit = useAllowed("audit:read");
  const places = PLACES.filter(([href]) => href !== "/audit" || readsAudit);
  return (
    <AppShell header={{ height: 60 }}>
      <AppShell.Header>
        <Container size="xl" h="100%" px={{ base: "sm", sm: "lg" }}>
          <Group h="100%" justify="space-between" wrap="nowrap">
            <Flex gap={{ base: "sm", sm: "xl" }} align="center" miw={0}>
              <Anchor
                component={Link}
                href="/clusters"
                underline="never"
                c="inherit"
                aria-label="Millrace"
                style={{ flexShrink: 0 }}
              >
                <Logo shrinks />
              </Anchor>
              <Flex
                component="nav"
                gap={{ base: "xs", sm: "lg" }}
                align="center"
                aria-label="Main"
                miw={0}
                py="xs"
                // On a phone the places scroll, so that the menus at the end stay within reach.
                style={{ overflowX: "auto" }}
              >
                {places.map(([href, label]) => {
                  const here = path.startsWith(href);
                  return (
                    <Anchor
                      key={href}
                      component={Link}
                      href={href}
                      fz="sm"
                      style={{ whiteSpace: "nowrap" }}
                      fw={here ? 600 : 400}
                      c={here ? "race" : "inherit"}
                      aria-current={here ? "page" : undefined}
                    >
                      {label}
                    </Anchor>
                  );
                })}
              </Flex>
            </Flex>
            <Flex gap={{ base: 4, sm: "sm" }} align="center" style={{ flexShrink: 0 }}>
              <ColorSchemeMenu />
              <UserMenu />
            </Flex>
          </Group>
        </Container>
      </AppShell.Header>
      <AppShell.Main>
        <ImpersonationBanner />
        <Container size="xl" p="lg">
          {children}
        </Container>
      </AppShell.Main>
    </AppShell>
  );
}
