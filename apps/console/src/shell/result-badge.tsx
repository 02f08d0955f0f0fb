import { Badge, Stack, Text } from "@mantine/core";
import type { Icon } from "@tabler/icons-react";

/** A result as a colour, a sign and a word. */
export type ResultLook = readonly [color: string, icon: Icon, word: string];

interface ResultBadgeProps {
  result: string;
  look: ResultLook;
  /** Why it is so. */
  note?: string | null | undefined;
}

export function ResultBadge({ result, look: [color, Sign, word], note }: ResultBadgeProps) {
  return (
    <Stack gap={4} align="flex-start">
      <Badge
        variant="outline"
        color={color}
        c="inherit"
        tt="none"
        fw={500}
        leftSection={<Sign size={12} />}
        data-result={result}
      >
        {word}
      </Badge>
      {note && (
        <Text fz="xs" className="quiet" maw={260}>
          {note}
        </Text>
      )}
    </Stack>
  );
}
