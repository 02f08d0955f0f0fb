import { Group, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

interface PageHeaderProps {
  title: string;
  /** What the page shows. */
  text: ReactNode;
  /** Level of the heading: 2 below a frame that has the page's first heading. */
  level?: 1 | 2;
  /** The page's actions. */
  children?: ReactNode;
}

export function PageHeader({ title, text, level = 2, children }: PageHeaderProps) {
  return (
    <Group justify="space-between">
      <div>
        <Title order={level} fz={level === 1 ? "h2" : "h3"}>
          {title}
        </Title>
        <Text className="quiet" fz="sm">
          {text}
        </Text>
      </div>
      {children}
    </Group>
  );
}
