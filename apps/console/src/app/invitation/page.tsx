import { Card, Center, Stack } from "@mantine/core";
import type { Metadata } from "next";
import { InvitationPage } from "../../invitation/invitation-page.tsx";
import { Logo } from "../../shell/logo.tsx";

export const metadata: Metadata = { title: "Invitation" };

export default function Page() {
  return (
    <Center component="main" mih="100vh" p="md">
      <Stack w="100%" maw={440} gap="lg">
        <Logo size={36} />
        <Card padding="xl">
          <InvitationPage />
        </Card>
      </Stack>
    </Center>
  );
}
