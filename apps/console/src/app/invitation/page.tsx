import { Card, Center, Stack } from "@mantine/core";
import { InvitationPage } from "../../invitation/invitation-page.tsx";
import { Logo } from "../../shell/logo.tsx";
import { PageTitle } from "../../shell/page-title.tsx";

export default function Page() {
  return (
    <Center component="main" mih="100vh" p="md">
      <PageTitle>Invitation</PageTitle>
      <Stack w="100%" maw={440} gap="lg">
        <Logo size={36} />
        <Card padding="xl">
          <InvitationPage />
        </Card>
      </Stack>
    </Center>
  );
}
