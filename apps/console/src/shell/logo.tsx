import { Group, Text } from "@mantine/core";

/** The wheel and the race below it; where it `shrinks`, a narrow screen has no room for the word. */
export function Logo({ size = 28, shrinks = false }: { size?: number; shrinks?: boolean }) {
  return (
    <Group gap={10} wrap="nowrap">
      <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="#086a68" />
        <g fill="none" stroke="#fff" strokeWidth="2.2" strokeLinecap="round">
          <circle cx="16" cy="14" r="6.5" />
          <path d="M16 5v18M7 14h18M9.6 7.6l12.8 12.8M22.4 7.6 9.6 20.4" />
          <path d="M4 26c3-2.4 5-2.4 8 0s5 2.4 8 0 5-2.4 8 0" />
        </g>
      </svg>
      <Text
        fw={680}
        fz="lg"
        {...(shrinks && { visibleFrom: "xs" })}
        style={{ letterSpacing: "-0.01em" }}
      >
        Millrace
      </Text>
    </Group>
  );
}
