"use client";

import { Button, Container, Group, Stack } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import type { ReactNode } from "react";
import { signOut } from "../session/session.ts";
import { ColorSchemeMenu } from "../shell/color-scheme-menu.tsx";
import { Logo } from "../shell/logo.tsx";

/** The frame around the page of platform operators, who belong to no organization. */
export function PlatformFrame({ children }: { children: ReactNode }) {
  const router = useRouter();
  const queryClient = useQueryClient();

  async function leave() {
    await signOut();
    queryClient.clear();
    router.replace("/sign-in");
  }

  return (
    <Container size="xl" p="lg">
      <Stack gap="lg">
        <Group component="header" justify="space-between">
          <Logo />
          <Group gap="sm">
            <ColorSchemeMenu />
            <Button variant="default" onClick={leave}>
              Sign out
            </Button>
          </Group>
        </Group>
        <main>{children}</main>
      </Stack>
    </Container>
  );
}
