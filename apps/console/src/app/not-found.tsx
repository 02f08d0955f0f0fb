import { Stack, Text, Title } from "@mantine/core";
import Link from "next/link";
import { PageTitle } from "../shell/page-title.tsx";

export default function NotFound() {
  return (
    <Stack component="main" align="center" justify="center" mih="100vh" gap="xs">
      <PageTitle>Page not found</PageTitle>
      <Title order={1}>Page not found</Title>
      <Text className="quiet">The address is wrong, or the page was deleted.</Text>
      <Link href="/clusters">Back to clusters</Link>
    </Stack>
  );
}
