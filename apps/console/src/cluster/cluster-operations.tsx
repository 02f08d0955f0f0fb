"use client";

import { Stack } from "@mantine/core";
import { DriftCard } from "../drift/drift-card.tsx";
import { OperationList } from "../operation/operation-list.tsx";

/** How what exists differs from what was made, and what was done to the cluster. */
export function ClusterOperations({ clusterId }: { clusterId: string }) {
  return (
    <Stack gap="md">
      <DriftCard clusterId={clusterId} />
      <OperationList clusterId={clusterId} />
    </Stack>
  );
}
