"use client";

import { Badge, Group, Table, Text } from "@mantine/core";
import type { Access } from "@millrace/contract";
import {
  ACCESS_UNUSED_DAYS,
  type AccessFinding,
  type AccessKind,
  type SignInMethod,
} from "@millrace/domain";
import { ago, day, moment } from "../format/time.ts";
import { WideTable } from "../shell/wide-table.tsx";

const KINDS = {
  member: "Member",
  service_account: "Service account",
  api_key: "API key",
  invitation: "Invitation",
  single_sign_on: "Single sign-on",
} as const satisfies Record<AccessKind, string>;

const FINDINGS = {
  owner: "Owner",
  never_used: "Never used",
  unused: `Unused for ${ACCESS_UNUSED_DAYS} days`,
  no_second_factor: "No second factor",
  default_admin: "Default role is admin",
} as const satisfies Record<AccessFinding, string>;

const SIGN_IN = {
  password: "password",
  single_sign_on: "single sign-on",
} as const satisfies Record<SignInMethod, string>;

export function AccessTable({ items }: { items: readonly Access[] }) {
  return (
    <WideTable label="Access" minWidth={920}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Name</Table.Th>
          <Table.Th>Role</Table.Th>
          <Table.Th>Signs in with</Table.Th>
          <Table.Th>Created</Table.Th>
          <Table.Th>Last used</Table.Th>
          <Table.Th>Findings</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {items.map((access) => (
          <AccessRow key={access.id} access={access} />
        ))}
      </Table.Tbody>
    </WideTable>
  );
}

function AccessRow({ access }: { access: Access }) {
  const { kind, name, role, custom_role, permissions, domains, last_used_at, findings } = access;
  return (
    <Table.Tr data-access={name}>
      <Table.Td>
        <Text fz="sm" fw={600}>
          {name}
        </Text>
        <Text fz="xs" className="quiet">
          {KINDS[kind]}
          {access.disabled && ", disabled"}
          {access.expires_at && `, expires ${day(access.expires_at)}`}
        </Text>
        {domains.length > 0 && (
          <Text fz="xs" className="quiet">
            {domains.join(", ")}
          </Text>
        )}
      </Table.Td>
      <Table.Td>
        <Text fz="sm">{custom_role?.name ?? role}</Text>
        {permissions && (
          <Text fz="xs" className="quiet">
            Only {permissions.join(", ")}
          </Text>
        )}
      </Table.Td>
      <Table.Td>{signInOf(access)}</Table.Td>
      <Table.Td>
        <Text fz="sm" title={moment(access.created_at)}>
          {ago(access.created_at)}
        </Text>
      </Table.Td>
      <Table.Td>
        {last_used_at ? (
          <Text fz="sm" title={moment(last_used_at)}>
            {ago(last_used_at)}
          </Text>
        ) : (
          "–"
        )}
      </Table.Td>
      <Table.Td>
        <Group gap={4}>
          {findings.map((finding) => (
            <Badge key={finding} variant="default" tt="none" fw={500}>
              {FINDINGS[finding]}
            </Badge>
          ))}
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}

function signInOf({ sign_in, second_factor }: Access): string {
  const methods: string[] = sign_in.map((method) => SIGN_IN[method]);
  if (second_factor) methods.push("second factor");
  return methods.join(", ") || "–";
}
