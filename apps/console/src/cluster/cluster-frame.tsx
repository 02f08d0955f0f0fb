"use client";

import {
  Anchor,
  Code,
  CopyButton,
  Group,
  Skeleton,
  Stack,
  Tabs,
  Title,
  UnstyledButton,
} from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import Link from "next/link";
import { usePathname, useRouter } from "next/navigation";
import { type ReactNode, useState } from "react";
import { statusOf } from "../api/client.tsx";
import { OperationSteps } from "../operation/operation-steps.tsx";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { useCluster } from "./live.ts";
import { PhaseBadge } from "./phase-badge.tsx";

const TABS = [
  ["overview", "Overview"],
  ["connect", "Connect"],
  ["topics", "Topics"],
  ["groups", "Consumer groups"],
  ["catch-up", "Catch-up"],
  ["tuning", "Tuning"],
  ["settings", "Settings"],
] as const;

/** What every page of one cluster shares: its name and state, what is being done to it, the tabs. */
export function ClusterFrame({ clusterId, children }: { clusterId: string; children: ReactNode }) {
  const router = useRouter();
  const path = usePathname();
  const { data: cluster, error } = useCluster(clusterId);
  const watched = useWatchedOperation(cluster);
  if (statusOf(error) === 404) {
    return (
      <Empty
        title="This cluster does not exist"
        text="It has been deleted, or belongs to another organization."
      >
        <Anchor component={Link} href="/clusters">
          Back to the clusters
        </Anchor>
      </Empty>
    );
  }
  const here = path.split("/")[3] ?? "overview";
  return (
    <Stack gap="lg">
      <div>
        <Anchor component={Link} href="/clusters" fz="sm">
          Clusters
        </Anchor>
        <Group gap="md" mt={2}>
          {cluster ? (
            <>
              <Title order={1} fz="h2">
                {cluster.spec.name}
              </Title>
              <PhaseBadge phase={cluster.status.phase} />
            </>
          ) : (
            <Skeleton h={34} w={220} />
          )}
          <CopyId id={clusterId} />
        </Group>
      </div>
      {error && <ProblemAlert error={error} title="The cluster cannot be read" />}
      {cluster?.status.phase === "DEGRADED" && (
        <ProblemNote
          text={cluster.status.conditions[0]?.message ?? "The broker does not answer."}
        />
      )}
      {watched && <OperationSteps operationId={watched} clusterId={clusterId} />}
      <Tabs
        value={here}
        onChange={(tab) => router.push(`/clusters/${clusterId}/${tab === "overview" ? "" : tab}`)}
      >
        <Tabs.List>
          {TABS.map(([tab, label]) => (
            <Tabs.Tab key={tab} value={tab}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={here} pt="lg">
          {children}
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

/** The operation that changes the cluster now, kept after its end so that its end is seen too. */
function useWatchedOperation(cluster: Cluster | undefined): string | undefined {
  const [watched, setWatched] = useState<string>();
  const changing =
    cluster !== undefined && ["PROVISIONING", "DELETING", "FAILED"].includes(cluster.status.phase);
  const current = changing ? cluster.status.operation_id : undefined;
  if (current !== undefined && current !== watched) setWatched(current);
  return watched;
}

function ProblemNote({ text }: { text: string }) {
  return (
    <Code block role="status">
      {text}
    </Code>
  );
}

function CopyId({ id }: { id: string }) {
  return (
    <CopyButton value={id}>
      {({ copied, copy }) => (
        <UnstyledButton onClick={copy} aria-label={`Copy the id ${id}`}>
          <Code>{copied ? "copied" : id}</Code>
        </UnstyledButton>
      )}
    </CopyButton>
  );
}
