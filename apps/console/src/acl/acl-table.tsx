import { ActionIcon, Badge, Card, Table, Text } from "@mantine/core";
import type { Acl } from "@millrace/contract";
import { IconTrash } from "@tabler/icons-react";
import { WideTable } from "../shell/wide-table.tsx";
import { aclWords, resourceWords, wordsOf } from "./acl-words.ts";

interface AclTableProps {
  acls: readonly Acl[];
  mayWrite: boolean;
  onDelete: (acl: Acl) => void;
}

export function AclTable({ acls, mayWrite, onDelete }: AclTableProps) {
  return (
    <Card padding={0}>
      <WideTable label="ACLs" minWidth={560}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Principal</Table.Th>
            <Table.Th>Permission</Table.Th>
            <Table.Th>Operation</Table.Th>
            <Table.Th>Resource</Table.Th>
            <Table.Th>Host</Table.Th>
            {mayWrite && <Table.Th w={60} aria-label="Actions" />}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {acls.map((acl) => (
            <Table.Tr key={JSON.stringify(acl)}>
              <Table.Td>
                <Text ff="monospace" fz="sm" style={{ overflowWrap: "anywhere" }}>
                  {acl.principal}
                </Text>
              </Table.Td>
              <Table.Td>
                <Badge variant="default" tt="none" fw={500}>
                  {acl.permission}
                </Badge>
              </Table.Td>
              <Table.Td>{wordsOf(acl.operation)}</Table.Td>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{resourceWords(acl)}</Table.Td>
              <Table.Td>{acl.host === "*" ? "any" : acl.host}</Table.Td>
              {mayWrite && (
                <Table.Td>
                  <ActionIcon
                    variant="subtle"
                    color="red"
                    aria-label={`Delete ACL: ${aclWords(acl)}`}
                    onClick={() => onDelete(acl)}
                  >
                    <IconTrash size={16} />
                  </ActionIcon>
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </WideTable>
    </Card>
  );
}
