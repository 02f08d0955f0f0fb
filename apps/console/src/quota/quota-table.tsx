import { ActionIcon, Card, Group, Table } from "@mantine/core";
import type { ClientQuota } from "@millrace/contract";
import { QUOTA_LIMITS } from "@millrace/domain";
import { IconPencil, IconTrash } from "@tabler/icons-react";
import { WideTable } from "../shell/wide-table.tsx";
import { limitText, QUOTA_TITLES, quotaWords } from "./quota-words.ts";

interface QuotaTableProps {
  quotas: readonly ClientQuota[];
  mayWrite: boolean;
  onChange: (quota: ClientQuota) => void;
  onDelete: (quota: ClientQuota) => void;
}

const NONE = "–";

export function QuotaTable({ quotas, mayWrite, onChange, onDelete }: QuotaTableProps) {
  return (
    <Card padding={0}>
      <WideTable label="Quotas" minWidth={620}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Applies to</Table.Th>
            {QUOTA_LIMITS.map((limit) => (
              <Table.Th key={limit} ta="right">
                {QUOTA_TITLES[limit]}
              </Table.Th>
            ))}
            {mayWrite && <Table.Th w={110} aria-label="Actions" />}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {quotas.map((quota) => (
            <Table.Tr key={JSON.stringify([quota.user, quota.client_id])}>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{quotaWords(quota)}</Table.Td>
              {QUOTA_LIMITS.map((limit) => {
                const amount = quota[limit];
                return (
                  <Table.Td key={limit} ta="right" className="number">
                    {amount === null ? NONE : limitText(limit, amount)}
                  </Table.Td>
                );
              })}
              {mayWrite && (
                <Table.Td>
                  <Group gap={4} wrap="nowrap" justify="flex-end">
                    <ActionIcon
                      variant="subtle"
                      color="gray"
                      aria-label={`Edit quota of ${quotaWords(quota)}`}
                      onClick={() => onChange(quota)}
                    >
                      <IconPencil size={16} />
                    </ActionIcon>
                    <ActionIcon
                      variant="subtle"
                      color="red"
                      aria-label={`Delete quota of ${quotaWords(quota)}`}
                      onClick={() => onDelete(quota)}
                    >
                      <IconTrash size={16} />
                    </ActionIcon>
                  </Group>
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </WideTable>
    </Card>
  );
}
