import { Card, Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** An empty list: what it is for, and how to create the first item. */
export function Empty(props: { title: string; text: string; children?: ReactNode }) {
  return (
    <Card py={56}>
      <Stack align="center" gap="sm">
        <Title order={2} fz="h4">
          {props.title}
        </Title>
        <Text className="quiet" ta="center" maw={460}>
          {props.text}
        </Text>
        {props.children}
      </Stack>
    </Card>
  );
}
