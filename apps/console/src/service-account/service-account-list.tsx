"use client";

import { Button, Skeleton, Stack } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX } from "@millrace/domain";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { useAllowed, useDenied } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { NoPermission } from "../shell/no-permission.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { CreateServiceAccountDialog } from "./create-service-account-dialog.tsx";
import { ServiceAccountTable } from "./service-account-table.tsx";

/** The organization's members that are no people. */
export function ServiceAccountList() {
  const trpc = useTRPC();
  const denied = useDenied("apikey:read");
  const mayWrite = useAllowed("apikey:write");
  const [creating, dialog] = useDisclosure(false);
  const { data, error, isPending } = useQuery({
    ...trpc.serviceAccount.list.queryOptions({ page_size: SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX }),
    enabled: !denied,
  });
  if (denied) {
    return <NoPermission to="read service accounts" />;
  }
  return (
    <Stack gap="lg">
      <PageHeader
        title="Service accounts"
        text="Members for programs. Their API keys follow the role of the account."
      >
        {mayWrite && (
          <Button leftSection={<IconPlus size={16} />} onClick={dialog.open}>
            Create service account
          </Button>
        )}
      </PageHeader>
      {error && <ProblemAlert error={error} title="Cannot load the service accounts" />}
      {isPending && <Skeleton h={120} radius="md" />}
      {data?.items.length === 0 && (
        <Empty
          title="No service accounts"
          text="Create one for each program, and give it keys of its own."
        />
      )}
      {data && data.items.length > 0 && <ServiceAccountTable accounts={data.items} />}
      <CreateServiceAccountDialog opened={creating} onClose={dialog.close} />
    </Stack>
  );
}
