"use client";

import { Stack } from "@mantine/core";
import { DriftCard } from "../drift/drift-card.tsx";
import { OperationList } from "../operation/operation-list.tsx";

/** The drift status and the operations of a cluster. */
export function ClusterOperations({ clusterId }: { clusterId: string }) {
  return (
    <Stack gap="md">
      <DriftCard clusterId={clusterId} />
      <OperationList clusterId={clusterId} />
    </Stack>
  );
}
