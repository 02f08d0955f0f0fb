"use client";

import { Button, Card, Modal, Skeleton, Stack, Table, Text } from "@mantine/core";
import type { OutgoingMail } from "@millrace/contract";
import { OUTGOING_MAILS_PER_ORGANIZATION_MAX } from "@millrace/domain";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { useAllowed, useDenied } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { NoPermission } from "../shell/no-permission.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { SecretDialog } from "../shell/secret-dialog.tsx";
import { WideTable } from "../shell/wide-table.tsx";

/** The mails that Millrace would send if it had a mail server. */
export function OutgoingMailList() {
  const trpc = useTRPC();
  const denied = useDenied("mail:read");
  const { data, error, isPending } = useQuery({
    ...trpc.outgoingMail.list.queryOptions({ page_size: OUTGOING_MAILS_PER_ORGANIZATION_MAX }),
    enabled: !denied,
  });
  if (denied) {
    return <NoPermission to="read the mail outbox" />;
  }
  return (
    <Stack gap="lg">
      <PageHeader
        title="Mail outbox"
        text="Millrace sends no mail. Send the text of an invitation to its recipient yourself. Each text is shown once."
      />
      {error && <ProblemAlert error={error} title="Cannot load the mail outbox" />}
      {isPending && <Skeleton h={120} radius="md" />}
      {data?.items.length === 0 && (
        <Empty title="No mails" text="Invitations to this organization appear here." />
      )}
      {data && data.items.length > 0 && <MailTable mails={data.items} />}
    </Stack>
  );
}

function MailTable({ mails }: { mails: readonly OutgoingMail[] }) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const mayOpen = useAllowed("member:write");
  const open = useMutation(
    trpc.outgoingMail.open.mutationOptions({
      onSettled: () => void queryClient.invalidateQueries(trpc.outgoingMail.pathFilter()),
    }),
  );
  return (
    <Card padding={0}>
      <WideTable label="Mail outbox" minWidth={640}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Recipient</Table.Th>
            <Table.Th>Subject</Table.Th>
            <Table.Th>Created</Table.Th>
            <Table.Th w={150}>Text</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {mails.map((mail) => (
            <Table.Tr key={mail.id} data-mail={mail.recipient}>
              <Table.Td fw={600}>{mail.recipient}</Table.Td>
              <Table.Td>{mail.subject}</Table.Td>
              <Table.Td>
                <Text fz="sm" className="quiet" title={moment(mail.created_at)}>
                  {ago(mail.created_at)}
                </Text>
              </Table.Td>
              <Table.Td>
                {mail.opened_at !== null && (
                  <Text fz="sm" className="quiet" title={moment(mail.opened_at)}>
                    Shown {ago(mail.opened_at)}
                  </Text>
                )}
                {mail.opened_at === null && mayOpen && (
                  <Button
                    variant="default"
                    size="xs"
                    aria-label={`Show text of the mail to ${mail.recipient}`}
                    onClick={() => open.mutate({ mail_id: mail.id })}
                  >
                    Show text
                  </Button>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </WideTable>
      <SecretDialog
        opened={open.isSuccess}
        secret={open.data?.text}
        title="Mail"
        secretTitle={open.data?.subject ?? ""}
        note={`Send this text to ${open.data?.recipient ?? ""}. It is not shown again.`}
        busy={false}
        onClose={open.reset}
      >
        {null}
      </SecretDialog>
      <Modal opened={open.isError} onClose={open.reset} title="Mail">
        <ProblemAlert error={open.error} title="Cannot show the text" />
      </Modal>
    </Card>
  );
}
