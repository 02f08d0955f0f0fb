"use client";

import { Box, Button, CopyButton, Group, Text } from "@mantine/core";
import type { OperationEvent } from "@millrace/contract";
import { useEffect, useRef } from "react";
import { lineText, logText } from "./log-lines.ts";

const COLORS: Record<string, string> = {
  error: "var(--mantine-color-error)",
  warn: "var(--chart-out)",
};
const HEIGHT = 320;
/** So near to the end a reader follows what comes; further up they read. */
const FOLLOW_PX = 40;

/** The lines of an operation, newest last; it follows them as long as its end is in sight. */
export function OperationLog({ lines }: { lines: readonly OperationEvent[] }) {
  const box = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new line may move the end
  useEffect(() => {
    if (following.current) box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [lines]);
  const onScroll = () => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = box.current ?? {};
    following.current = scrollHeight - scrollTop - clientHeight < FOLLOW_PX;
  };
  return (
    <div>
      <Box
        ref={box}
        onScroll={onScroll}
        mah={HEIGHT}
        p="sm"
        tabIndex={0}
        role="log"
        aria-label="Log"
        bg="var(--surface-page)"
        style={{ overflow: "auto", borderRadius: 8 }}
      >
        {lines.length === 0 && (
          <Text fz="xs" className="quiet">
            No log lines yet.
          </Text>
        )}
        {lines.map((event) => (
          <LogLine key={event.seq} event={event} />
        ))}
      </Box>
      <Group justify="flex-end" mt="xs">
        <CopyButton value={logText(lines)}>
          {({ copied, copy }) => (
            <Button size="xs" variant="default" onClick={copy} disabled={lines.length === 0}>
              {copied ? "Copied" : "Copy log"}
            </Button>
          )}
        </CopyButton>
      </Group>
    </div>
  );
}

function LogLine({ event }: { event: OperationEvent }) {
  return (
    <Text
      fz="xs"
      ff="monospace"
      data-log={event.seq}
      c={COLORS[event.level ?? ""]}
      style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}
    >
      <span className="quiet">{event.at.slice(11, 19)}</span>{" "}
      {event.address && <b>{event.address} </b>}
      {lineText(event)}
    </Text>
  );
}
