import { Stack, Text, Title } from "@mantine/core";
import Link from "next/link";

export default function NotFound() {
  return (
    <Stack component="main" align="center" justify="center" mih="100vh" gap="xs">
      <Title order={1}>There is nothing here</Title>
      <Text className="quiet">The address is mistyped, or what was here has been deleted.</Text>
      <Link href="/clusters">Back to the clusters</Link>
    </Stack>
  );
}
