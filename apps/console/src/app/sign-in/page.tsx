import { Card, Center, Stack, Text, Title } from "@mantine/core";
import { Suspense } from "react";
import { SignInForm } from "../../session/sign-in-form.tsx";
import { Logo } from "../../shell/logo.tsx";
import { PageTitle } from "../../shell/page-title.tsx";

export default function SignInPage() {
  return (
    <Center component="main" mih="100vh" p="md">
      <PageTitle>Sign in</PageTitle>
      <Stack w="100%" maw={400} gap="lg">
        <Logo size={36} />
        <Card padding="xl">
          <Stack gap="lg">
            <div>
              <Title order={1} fz="h3">
                Sign in
              </Title>
              <Text className="quiet" fz="sm">
                to manage your organization's clusters
              </Text>
            </div>
            <Suspense>
              <SignInForm />
            </Suspense>
          </Stack>
        </Card>
      </Stack>
    </Center>
  );
}
