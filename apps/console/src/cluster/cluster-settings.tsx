"use client";

import { Accordion, Card, SimpleGrid, Skeleton, Stack, Text } from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { regionFacts, sizingOf } from "@millrace/domain";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ChangeCard } from "../cluster-change/change-card.tsx";
import { usd } from "../format/money.ts";
import { bytes } from "../format/quantity.ts";
import { moment } from "../format/time.ts";
import { CostTable } from "../plan/cost-table.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { estimateOfCluster } from "./cluster-estimate.ts";
import { DeleteCard } from "./delete-card.tsx";
import { useCluster } from "./live.ts";
import { ProtectionCard } from "./protection-card.tsx";

/** Facts, cost, changes, deletion protection and deletion of a cluster. */
export function ClusterSettings({ clusterId }: { clusterId: string }) {
  const { data: cluster } = useCluster(clusterId);
  const mayChange = useAllowed("cluster:update");
  const mayDelete = useAllowed("cluster:delete");
  if (!cluster) return <Skeleton h={200} radius="md" />;
  const here = cluster.status.phase !== "PENDING_PURGE" && cluster.status.phase !== "DELETING";
  return (
    <Stack gap="md">
      <Facts cluster={cluster} />
      {here && <ChangeCard cluster={cluster} editable={mayChange} />}
      <CostCard cluster={cluster} />
      {here && <ProtectionCard cluster={cluster} editable={mayChange} />}
      {mayDelete && here && <DeleteCard cluster={cluster} />}
    </Stack>
  );
}

function Facts({ cluster }: { cluster: Cluster }) {
  const { spec, status, metadata } = cluster;
  return (
    <Card>
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }}>
        <Fact label="Size" value={sizingOf(spec.size).title} />
        <Fact label="Region" value={regionFacts(spec.region).title} />
        <Fact label="Environment" value={useEnvironmentName(spec.environment_id)} />
        <Fact label="Write-ahead log" value={walText(cluster)} />
        <Fact
          label="Estimated monthly cost"
          value={status.provider === "local" ? "$0" : usd(status.estimated_monthly_cost_usd)}
        />
        <Fact label="Created" value={moment(metadata.created_at)} />
      </SimpleGrid>
    </Card>
  );
}

function useEnvironmentName(environmentId: string): string {
  const trpc = useTRPC();
  const { data } = useQuery(trpc.environment.get.queryOptions({ environment_id: environmentId }));
  return data?.name ?? "–";
}

/** `10 GiB gp3, 3,000 IOPS`; a local cluster has the log that it was created with. */
export function walText({ spec: { wal }, status }: Cluster): string {
  if (wal === null) return bytes(Number(status.wal_capacity_bytes));
  return `${wal.size_gib} GiB ${wal.type}, ${wal.iops.toLocaleString("en")} IOPS`;
}

function Fact({ label, value }: { label: string; value: string }) {
  return (
    <div>
      <Text fz="xs" className="quiet">
        {label}
      </Text>
      <Text fz="sm" fw={600}>
        {value}
      </Text>
    </div>
  );
}

function CostCard({ cluster }: { cluster: Cluster }) {
  const cost = estimateOfCluster(cluster);
  if (cost.lines.length === 0) return null;
  return (
    <Accordion variant="contained" order={2} chevronPosition="left">
      <Accordion.Item value="cost">
        <Accordion.Control>
          <Text fw={600}>Estimated monthly cost: {usd(cost.total)}</Text>
        </Accordion.Control>
        <Accordion.Panel>
          <CostTable cost={cost} delta={null} />
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  );
}
