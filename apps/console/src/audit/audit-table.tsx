"use client";

import { ActionIcon, Badge, Code, Group, Stack, Table, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { AuditEvent } from "@millrace/contract";
import type { AuditResult } from "@millrace/domain";
import {
  IconAlertTriangle,
  IconCheck,
  IconChevronDown,
  IconChevronRight,
  IconClock,
  IconKey,
  IconLock,
  IconUser,
} from "@tabler/icons-react";
import { ago, exactMoment } from "../format/time.ts";
import { changedFields } from "./audit-filter.ts";

/** A result as a colour, a sign and a word. */
export const RESULTS = {
  success: ["green", IconCheck, "Succeeded"],
  failure: ["orange", IconAlertTriangle, "Failed"],
  denied: ["red", IconLock, "Denied"],
  started: ["gray", IconClock, "Started"],
} as const satisfies Record<AuditResult, readonly [string, typeof IconCheck, string]>;

export function AuditTable({ events }: { events: readonly AuditEvent[] }) {
  return (
    <Table.ScrollContainer
      minWidth={860}
      scrollAreaProps={{
        viewportProps: { tabIndex: 0, role: "region", "aria-label": "Audit events" },
      }}
    >
      <Table horizontalSpacing="lg">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={50} aria-label="Details" />
            <Table.Th>When</Table.Th>
            <Table.Th>Who</Table.Th>
            <Table.Th>What</Table.Th>
            <Table.Th>Target</Table.Th>
            <Table.Th>From</Table.Th>
            <Table.Th>Result</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {events.map((event) => (
            <EventRows key={event.id} event={event} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function EventRows({ event }: { event: AuditEvent }) {
  const [opened, details] = useDisclosure(false);
  const { actor } = event;
  const [Icon, kind] =
    actor.kind === "user" ? ([IconUser, "user"] as const) : ([IconKey, "API key"] as const);
  const Chevron = opened ? IconChevronDown : IconChevronRight;
  return (
    <>
      <Table.Tr data-audit={event.method}>
        <Table.Td>
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-expanded={opened}
            aria-label={`Details of event ${event.seq}`}
            onClick={details.toggle}
          >
            <Chevron size={16} />
          </ActionIcon>
        </Table.Td>
        <Table.Td>
          <Text fz="sm" title={exactMoment(event.created_at)} style={{ whiteSpace: "nowrap" }}>
            {ago(event.created_at)}
          </Text>
        </Table.Td>
        <Table.Td>
          <Group gap={6} wrap="nowrap">
            <Icon size={16} role="img" aria-label={kind} />
            <Text fz="sm">{actor.name || actor.id}</Text>
          </Group>
        </Table.Td>
        <Table.Td>
          <Code>{event.method}</Code>
        </Table.Td>
        <Table.Td>{event.target_id ? <Code>{event.target_id}</Code> : "–"}</Table.Td>
        <Table.Td>{event.client_address}</Table.Td>
        <Table.Td>
          <ResultBadge event={event} />
        </Table.Td>
      </Table.Tr>
      {opened && (
        <Table.Tr>
          <Table.Td colSpan={7}>
            <EventDetails event={event} />
          </Table.Td>
        </Table.Tr>
      )}
    </>
  );
}

function ResultBadge({ event: { result, error_code } }: { event: AuditEvent }) {
  const [color, Icon, word] = RESULTS[result];
  return (
    <Stack gap={4} align="flex-start">
      <Badge
        variant="outline"
        color={color}
        c="inherit"
        tt="none"
        fw={500}
        leftSection={<Icon size={12} />}
        data-result={result}
      >
        {word}
      </Badge>
      {error_code && result !== "denied" && (
        <Text fz="xs" className="quiet">
          {error_code}
        </Text>
      )}
    </Stack>
  );
}

/** What was asked for, what changed, and how to find the request in the logs. */
export function EventDetails({ event }: { event: AuditEvent }) {
  const changes = changedFields(event.before, event.after);
  return (
    <Stack gap="xs" py="xs">
      <Text fz="sm">
        {exactMoment(event.created_at)}, request <Code>{event.request_id}</Code>, signed in by{" "}
        {event.auth_method === "session" ? "session" : "API key"}
      </Text>
      {changes.map(({ field, from, to }) => (
        <Text key={field} fz="sm" style={{ overflowWrap: "anywhere" }}>
          {field}: <Code>{from}</Code> to <Code>{to}</Code>
        </Text>
      ))}
      {event.request && (
        <div>
          <Text fz="sm" fw={600}>
            Request
          </Text>
          <Code block>{JSON.stringify(event.request, null, 2)}</Code>
        </div>
      )}
      <Text fz="xs" className="quiet" style={{ overflowWrap: "anywhere" }}>
        Event {event.seq}, SHA-256 {event.hash}
      </Text>
    </Stack>
  );
}
