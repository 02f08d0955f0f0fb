"use client";

import { Badge, Button, Card, Skeleton, Stack, Table } from "@mantine/core";
import { SESSION_DAYS_MAX, SESSION_IDLE_HOURS_MAX } from "@millrace/domain";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { WideTable } from "../shell/wide-table.tsx";
import { deviceOf } from "./device.ts";

/** Where the signed-in user is signed in. */
export function SessionsPage() {
  const trpc = useTRPC();
  const { data, error, isPending } = useQuery(trpc.session.list.queryOptions({}));
  const { revoke, revokeOthers } = useRevocation();
  const problem = revoke.error ?? revokeOthers.error;
  return (
    <Stack gap="lg">
      <PageHeader
        title="Sessions"
        text={`A session ends after ${SESSION_IDLE_HOURS_MAX} hours without use, and ${SESSION_DAYS_MAX} days after sign-in.`}
      >
        {data && data.items.length > 1 && (
          <Button
            variant="default"
            loading={revokeOthers.isPending}
            onClick={() => revokeOthers.mutate({})}
          >
            Revoke all other sessions
          </Button>
        )}
      </PageHeader>
      {error && <ProblemAlert error={error} title="Cannot load the sessions" />}
      {problem && <ProblemAlert error={problem} title="Cannot revoke the session" />}
      {isPending && <Skeleton h={120} radius="md" />}
      {data && (
        <Card padding={0}>
          <WideTable label="Sessions" minWidth={560}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Device</Table.Th>
                <Table.Th>Address</Table.Th>
                <Table.Th>Last used</Table.Th>
                <Table.Th>Signed in</Table.Th>
                <Table.Th w={120} aria-label="Actions" />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {data.items.map((session) => (
                <Table.Tr key={session.id} data-session={session.current ? "current" : "other"}>
                  <Table.Td fw={600} title={session.user_agent}>
                    {deviceOf(session.user_agent)}
                  </Table.Td>
                  <Table.Td>{session.client_address}</Table.Td>
                  <Table.Td title={moment(session.last_used_at)}>
                    {ago(session.last_used_at)}
                  </Table.Td>
                  <Table.Td title={moment(session.created_at)}>{ago(session.created_at)}</Table.Td>
                  <Table.Td ta="right">
                    {session.current ? (
                      <Badge variant="default" tt="none">
                        This session
                      </Badge>
                    ) : (
                      <Button
                        size="compact-sm"
                        variant="default"
                        onClick={() => revoke.mutate({ session_id: session.id as `ses_${string}` })}
                      >
                        Revoke
                      </Button>
                    )}
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </WideTable>
        </Card>
      )}
    </Stack>
  );
}

function useRevocation() {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const options = {
    onSuccess: () => void queryClient.invalidateQueries(trpc.session.pathFilter()),
  };
  return {
    revoke: useMutation(trpc.session.delete.mutationOptions(options)),
    revokeOthers: useMutation(trpc.session.deleteOthers.mutationOptions(options)),
  };
}
