"use client";

import { Anchor, Stack } from "@mantine/core";
import Link from "next/link";
import { OperationPanel } from "./operation-panel.tsx";

/** One operation with its log. */
export function OperationPage(props: { clusterId: string; operationId: string }) {
  const { clusterId, operationId } = props;
  return (
    <Stack gap="md">
      <Anchor component={Link} href={`/clusters/${clusterId}/operations`} fz="sm">
        All operations
      </Anchor>
      <OperationPanel operationId={operationId} clusterId={clusterId} withLog />
    </Stack>
  );
}
