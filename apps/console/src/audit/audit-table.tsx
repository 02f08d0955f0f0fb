"use client";

import { ActionIcon, Code, Stack, Table, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { AuditEvent } from "@millrace/contract";
import type { AuditResult, AuthMethod } from "@millrace/domain";
import {
  IconAlertTriangle,
  IconCheck,
  IconChevronDown,
  IconChevronRight,
  IconClock,
  IconLock,
} from "@tabler/icons-react";
import { ago, exactMoment } from "../format/time.ts";
import { Author } from "../shell/author.tsx";
import { ResultBadge, type ResultLook } from "../shell/result-badge.tsx";
import { WideTable } from "../shell/wide-table.tsx";
import { changedFields } from "./audit-filter.ts";

export const RESULTS = {
  success: ["green", IconCheck, "Succeeded"],
  failure: ["orange", IconAlertTriangle, "Failed"],
  denied: ["red", IconLock, "Denied"],
  started: ["gray", IconClock, "Started"],
} as const satisfies Record<AuditResult, ResultLook>;

const METHODS = {
  session: "session",
  api_key: "API key",
  password: "password",
  invitation: "invitation",
  sso: "single sign-on",
  impersonation: "a platform operator's session",
} as const satisfies Record<AuthMethod, string>;

export function AuditTable({ events }: { events: readonly AuditEvent[] }) {
  return (
    <WideTable label="Audit events" minWidth={860}>
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
    </WideTable>
  );
}

function EventRows({ event }: { event: AuditEvent }) {
  const [opened, details] = useDisclosure(false);
  const { actor } = event;
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
          <Author of={actor} />
        </Table.Td>
        <Table.Td>
          <Code>{event.method}</Code>
        </Table.Td>
        <Table.Td>{event.target_id ? <Code>{event.target_id}</Code> : "–"}</Table.Td>
        <Table.Td>{event.client_address}</Table.Td>
        <Table.Td>
          <ResultBadge
            result={event.result}
            look={RESULTS[event.result]}
            note={event.result === "denied" ? undefined : event.error_code}
          />
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

/** What was asked for, what changed, and how to find the request in the logs. */
export function EventDetails({ event }: { event: AuditEvent }) {
  const changes = changedFields(event.before, event.after);
  return (
    <Stack gap="xs" py="xs">
      <Text fz="sm">
        {exactMoment(event.created_at)}, request <Code>{event.request_id}</Code>, signed in by{" "}
        {METHODS[event.auth_method]}
      </Text>
      {event.impersonator && (
        <Text fz="sm">Platform operator {event.impersonator.name} acted as this member.</Text>
      )}
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
