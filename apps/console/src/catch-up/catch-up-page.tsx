"use client";

import { Alert, Group, SimpleGrid, Skeleton, Stack, Text, Title } from "@mantine/core";
import type { CatchUp } from "@millrace/contract";
import { IconInfoCircle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { useLastError } from "../api/last-error.ts";
import { BrokerDown, useBrokerDown } from "../cluster/broker-down.tsx";
import { useCluster } from "../cluster/live.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { byUrgency, summaryText } from "./backlog.ts";
import { CacheCard } from "./cache-card.tsx";
import { CatchUpCharts } from "./catch-up-charts.tsx";
import { GroupCard } from "./group-card.tsx";
import { BucketCard, NetworkCard } from "./network-card.tsx";

/** An answer with thousands of partitions has some megabytes, so it is polled less often. */
const CATCH_UP_POLL_MS = { usual: 2_000, large: 10_000 };
const LARGE_FROM_PARTITIONS = 2_000;
/** Cards at a time. */
const GROUPS_SHOWN = 20;

/** Backlog, read rate and remaining time of each group, with cache and network. Live. */
export function CatchUpPage({ clusterId, wanted }: { clusterId: string; wanted?: string }) {
  const trpc = useTRPC();
  const down = useBrokerDown(clusterId);
  const { data: cluster } = useCluster(clusterId);
  const query = useQuery(
    trpc.catchUp.get.queryOptions(
      { cluster_id: clusterId },
      // The next poll is the retry: retries before an error would only keep it from being shown.
      { refetchInterval: ({ state }) => pollMs(state.data), retry: false, enabled: !down },
    ),
  );
  const error = useLastError(query);
  const { data } = query;
  if (down) return <BrokerDown what="Backlogs, caches and network" />;
  return (
    <Stack gap="md">
      {error != null && <ProblemAlert error={error} title="Cannot load the catch-up status" />}
      {!data && error == null && <Skeleton h={320} radius="md" />}
      {data && <Groups answer={data} wanted={wanted} />}
      {data && <CacheCard cache={data.cache} />}
      {data && (
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <NetworkCard
            title="Ingress"
            text="Received from producers and object storage."
            direction={data.network.ingress}
          />
          <NetworkCard
            title="Egress"
            text="Sent to consumers and object storage."
            direction={data.network.egress}
          />
        </SimpleGrid>
      )}
      <CatchUpCharts clusterId={clusterId} />
      {data && <BucketCard calls={data.bucket_calls} billed={cluster?.status.provider === "aws"} />}
    </Stack>
  );
}

function Groups({ answer, wanted }: { answer: CatchUp; wanted: string | undefined }) {
  const [limit, setLimit] = useState(GROUPS_SHOWN);
  const groups = answer.groups.toSorted(
    (a, b) => Number(b.group === wanted) - Number(a.group === wanted) || byUrgency(a, b),
  );
  if (groups.length === 0) {
    return (
      <Empty
        title="No active consumers"
        text="A consumer group appears here when it joins or commits an offset: its backlog, its read rate and the time until it has caught up."
      />
    );
  }
  return (
    <Stack gap="md">
      <Group justify="space-between" gap="xs">
        <Title order={2} fz="h4">
          Consumer groups
        </Title>
        <Text fz="sm" className="quiet">
          {summaryText(groups)}
        </Text>
      </Group>
      {answer.truncated && (
        <Alert color="gray" icon={<IconInfoCircle size={18} />}>
          The broker has more groups or partitions than are listed here.
        </Alert>
      )}
      {wanted !== undefined && groups[0]?.group !== wanted && (
        <Alert color="gray" icon={<IconInfoCircle size={18} />}>
          The broker has no data about the group {wanted}: it has no members and no committed
          offsets.
        </Alert>
      )}
      {groups.slice(0, limit).map((group) => (
        <GroupCard key={group.group} group={group} wanted={group.group === wanted} />
      ))}
      {groups.length > limit && <ShowMore onClick={() => setLimit(limit + GROUPS_SHOWN)} />}
    </Stack>
  );
}

function pollMs(answer: CatchUp | undefined): number {
  const partitions = answer?.groups.reduce((sum, group) => sum + group.partitions.length, 0) ?? 0;
  return partitions < LARGE_FROM_PARTITIONS ? CATCH_UP_POLL_MS.usual : CATCH_UP_POLL_MS.large;
}
