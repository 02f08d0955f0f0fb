"use client";

import { Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ClientQuota } from "@millrace/contract";
import { IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { useLastError } from "../api/last-error.ts";
import { BrokerDown, useBrokerDown } from "../cluster/broker-down.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { DeleteQuotaDialog } from "./delete-quota-dialog.tsx";
import { QuotaTable } from "./quota-table.tsx";
import { QuotaUsage } from "./quota-usage.tsx";
import { SetQuotaDialog } from "./set-quota-dialog.tsx";

/** How much the clients of a cluster may do. */
export function QuotaList({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const [creating, dialog] = useDisclosure(false);
  const [changing, setChanging] = useState<ClientQuota>();
  const [deleting, setDeleting] = useState<ClientQuota>();
  const mayWrite = useAllowed("quota:write");
  const down = useBrokerDown(clusterId);
  const query = useInfiniteQuery(
    trpc.quota.list.infiniteQueryOptions(
      { cluster_id: clusterId },
      { getNextPageParam: (page) => page.next_page_token, retry: false, enabled: !down },
    ),
  );
  const { data, isPending, fetchNextPage, hasNextPage, isFetchingNextPage } = query;
  const error = useLastError(query);
  const quotas = data?.pages.flatMap((page) => page.items) ?? [];
  const create = mayWrite && (
    <Button leftSection={<IconPlus size={16} />} onClick={dialog.open}>
      Set quota
    </Button>
  );
  if (down) return <BrokerDown what="Quotas" />;
  return (
    <Stack gap="md">
      {quotas.length > 0 && (
        <Group justify="space-between">
          <Text className="quiet" fz="sm">
            Clients over their quota are slowed down. The most specific quota counts.
          </Text>
          {create}
        </Group>
      )}
      {error != null && <ProblemAlert error={error} title="Cannot load the quotas" />}
      {isPending && error == null && <Skeleton h={120} radius="md" />}
      {data && quotas.length === 0 && (
        <Empty title="No quotas yet" text="A quota limits how much a user or client ID may do.">
          {create}
        </Empty>
      )}
      {quotas.length > 0 && (
        <QuotaTable
          quotas={quotas}
          mayWrite={mayWrite}
          onChange={setChanging}
          onDelete={setDeleting}
        />
      )}
      {hasNextPage && <ShowMore loading={isFetchingNextPage} onClick={() => fetchNextPage()} />}
      <QuotaUsage clusterId={clusterId} />
      {(creating || changing) && (
        <SetQuotaDialog
          clusterId={clusterId}
          quota={changing}
          onClose={() => {
            dialog.close();
            setChanging(undefined);
          }}
        />
      )}
      <DeleteQuotaDialog
        clusterId={clusterId}
        quota={deleting}
        onClose={() => setDeleting(undefined)}
      />
    </Stack>
  );
}
