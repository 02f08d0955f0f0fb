"use client";

import { Alert, Badge, Button, Group, Text } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay, IconX } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { TAIL_ROWS_MAX, type Tail, type TailState } from "./live-tail.ts";

const STATES: Record<TailState, { label: string; color: string }> = {
  connecting: { label: "Connecting", color: "gray" },
  live: { label: "Live", color: "green" },
  paused: { label: "Paused", color: "yellow" },
  failed: { label: "Disconnected", color: "red" },
};

interface TailBarProps {
  tail: Tail;
  onPause: () => void;
  onResume: () => void;
  onStop: () => void;
  /** Further buttons. */
  children: ReactNode;
}

/** State of a live tail, and its buttons. */
export function TailBar({ tail, onPause, onResume, onStop, children }: TailBarProps) {
  const { state, received, problem } = tail;
  const { label, color } = STATES[state];
  const isReading = state === "live" || state === "connecting";
  return (
    <>
      <Group justify="space-between">
        <Group gap="sm">
          <Badge variant="dot" color={color} tt="none" data-tail={state}>
            {label}
          </Badge>
          <Text fz="sm" className="number" role="status" aria-live="off">
            {received.toLocaleString("en")} {received === 1 ? "record" : "records"} received
            {received > TAIL_ROWS_MAX && `, the newest ${TAIL_ROWS_MAX} shown`}
          </Text>
          {state === "paused" && (
            <Text fz="sm" className="quiet">
              Nothing is read while paused. Resume continues where it stopped.
            </Text>
          )}
        </Group>
        <Group gap="xs">
          {isReading ? (
            <Button
              size="xs"
              variant="default"
              leftSection={<IconPlayerPause size={14} />}
              onClick={onPause}
            >
              Pause tail
            </Button>
          ) : (
            <Button size="xs" leftSection={<IconPlayerPlay size={14} />} onClick={onResume}>
              {state === "failed" ? "Reconnect" : "Resume tail"}
            </Button>
          )}
          <Button size="xs" variant="default" leftSection={<IconX size={14} />} onClick={onStop}>
            Stop tail
          </Button>
          {children}
        </Group>
      </Group>
      {problem !== undefined && (
        <Alert color="red" title="The live tail stopped" role="alert">
          {problem}
        </Alert>
      )}
    </>
  );
}
