"use client";

import { Button, Card, Group, SimpleGrid, Skeleton, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { sizingOf } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { bytes } from "../format/quantity.ts";
import { moment } from "../format/time.ts";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { useCluster } from "./live.ts";

/** What the cluster was made with, and its deletion. */
export function ClusterSettings({ clusterId }: { clusterId: string }) {
  const { data: cluster } = useCluster(clusterId);
  if (!cluster) return <Skeleton h={200} radius="md" />;
  const sizing = sizingOf(cluster.spec.size);
  return (
    <Stack gap="md">
      <Card>
        <SimpleGrid cols={{ base: 2, sm: 4 }}>
          <Fact label="Size" value={sizing.title} />
          <Fact label="Region" value={cluster.spec.region} />
          <Fact label="Write-ahead log" value={bytes(sizing.walBytes)} />
          <Fact label="Created" value={moment(cluster.metadata.created_at)} />
        </SimpleGrid>
      </Card>
      <DeleteCard clusterId={clusterId} name={cluster.spec.name} />
    </Stack>
  );
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

function DeleteCard({ clusterId, name }: { clusterId: string; name: string }) {
  const trpc = useTRPC();
  const router = useRouter();
  const queryClient = useQueryClient();
  const [asked, setAsked] = useState(false);
  const remove = useMutation(
    trpc.cluster.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.cluster.list.pathFilter());
        notifications.show({ message: `The cluster ${name} is being deleted.` });
        router.push("/clusters");
      },
    }),
  );
  return (
    <Card>
      <Group justify="space-between">
        <div>
          <Text fw={600}>Delete this cluster</Text>
          <Text fz="sm" className="quiet">
            Its topics and all their records are deleted for good.
          </Text>
        </div>
        <Button color="red.9" onClick={() => setAsked(true)}>
          Delete cluster
        </Button>
      </Group>
      <ConfirmByName
        what="cluster"
        name={asked ? name : undefined}
        text="The broker is stopped, and its topics and all their records are deleted for good."
        busy={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate({ cluster_id: clusterId })}
        onClose={() => {
          remove.reset();
          setAsked(false);
        }}
      />
    </Card>
  );
}
