"use client";

import { Badge, Card, Progress, Stack, Table, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { WideTable } from "../shell/wide-table.tsx";
import { limitText, QUOTA_TITLES, quotaWords } from "./quota-words.ts";

const POLL_MS = 5_000;

/** Who uses how much of which quota now; nothing while nobody does. */
export function QuotaUsage({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const { data } = useQuery(
    trpc.quota.usage.queryOptions(
      { cluster_id: clusterId },
      { refetchInterval: POLL_MS, retry: false },
    ),
  );
  if (data === undefined || data.items.length === 0) return null;
  return (
    <Stack gap="xs" component="section" aria-label="Usage now">
      <Title order={2} fz="h4">
        Usage now
      </Title>
      <Card padding={0}>
        <WideTable label="Usage of quotas" minWidth={560}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Clients of</Table.Th>
              <Table.Th>Quota</Table.Th>
              <Table.Th ta="right">Used</Table.Th>
              <Table.Th ta="right">Limit</Table.Th>
              <Table.Th w={160} aria-label="Share" />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {data.items.map(({ quota, user, client_id, limit, rate, throttle_ms }) => (
              <Table.Tr key={JSON.stringify([quota, user, client_id])}>
                <Table.Td style={{ overflowWrap: "anywhere" }}>
                  {quotaWords({ user, client_id })}
                </Table.Td>
                <Table.Td>{QUOTA_TITLES[quota]}</Table.Td>
                <Table.Td ta="right" className="number">
                  {limitText(quota, rate)}
                </Table.Td>
                <Table.Td ta="right" className="number">
                  {limitText(quota, limit)}
                </Table.Td>
                <Table.Td>
                  {throttle_ms > 0 ? (
                    <Badge variant="default" tt="none" fw={500}>
                      slowed down
                    </Badge>
                  ) : (
                    <Progress
                      value={Math.min(100, (rate / limit) * 100)}
                      aria-label={`${QUOTA_TITLES[quota]} of ${quotaWords({ user, client_id })}`}
                    />
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </WideTable>
      </Card>
    </Stack>
  );
}
