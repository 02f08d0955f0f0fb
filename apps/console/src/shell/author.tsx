import { Group, Text } from "@mantine/core";
import { IconKey, IconUser } from "@tabler/icons-react";

interface AuthorProps {
  of: { readonly kind: "user" | "api_key"; readonly name: string; readonly id: string };
}

/** Who did something: a person or an API key. */
export function Author({ of: { kind, name, id } }: AuthorProps) {
  const [Icon, word] =
    kind === "user" ? ([IconUser, "user"] as const) : ([IconKey, "API key"] as const);
  return (
    <Group gap={6} wrap="nowrap">
      <Icon size={16} role="img" aria-label={word} />
      <Text fz="sm">{name || id}</Text>
    </Group>
  );
}
