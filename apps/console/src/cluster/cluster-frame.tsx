"use client";

import {
  Alert,
  Anchor,
  Code,
  CopyButton,
  Group,
  Skeleton,
  Stack,
  Tabs,
  Title,
  Tooltip,
  UnstyledButton,
} from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { IconLock, IconPlayerPause } from "@tabler/icons-react";
import Link from "next/link";
import { usePathname, useRouter } from "next/navigation";
import { type ReactNode, useState } from "react";
import { statusOf } from "../api/client.tsx";
import { DriftBadge } from "../drift/drift-badge.tsx";
import { OperationPanel } from "../operation/operation-panel.tsx";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { BrokerNote } from "./broker-note.tsx";
import { ContactNote } from "./contact-note.tsx";
import { useCluster } from "./live.ts";
import { PauseButton } from "./pause-button.tsx";
import { PhaseBadge } from "./phase-badge.tsx";
import { PurgeNote } from "./purge-note.tsx";
import { RecoverButton } from "./recover-button.tsx";

const TABS = [
  ["overview", "Overview"],
  ["connect", "Connect"],
  ["topics", "Topics"],
  ["groups", "Consumer groups"],
  ["access", "Access"],
  ["catch-up", "Catch-up"],
  ["brokers", "Brokers"],
  ["tuning", "Tuning"],
  ["benchmarks", "Benchmarks"],
  ["operations", "Operations"],
  ["settings", "Settings"],
] as const;

/** The frame of every cluster page: name, state, running operation and tabs. */
export function ClusterFrame({ clusterId, children }: { clusterId: string; children: ReactNode }) {
  const router = useRouter();
  const path = usePathname();
  const { data: cluster, error } = useCluster(clusterId);
  const { watched, dismiss } = useWatchedOperation(cluster);
  if (statusOf(error) === 404) {
    return (
      <Empty title="Cluster not found" text="It was deleted, or belongs to another organization.">
        <Anchor component={Link} href="/clusters">
          Back to clusters
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
        {cluster ? <Heading cluster={cluster} /> : <Skeleton h={34} w={220} mt={2} />}
      </div>
      {error && <ProblemAlert error={error} title="Cannot load the cluster" />}
      {cluster && <BrokerNote cluster={cluster} />}
      {cluster && <ContactNote cluster={cluster} />}
      {cluster?.status.phase === "PENDING_PURGE" && <PurgeNote cluster={cluster} />}
      {cluster?.status.phase === "PAUSED" && <PausedNote />}
      {watched && here !== "operations" && (
        <OperationPanel
          key={watched}
          operationId={watched}
          clusterId={clusterId}
          onDismiss={dismiss}
        />
      )}
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

function Heading({ cluster }: { cluster: Cluster }) {
  const { spec, status, metadata } = cluster;
  return (
    <Group justify="space-between" mt={2}>
      <Group gap="md">
        <Title order={1} fz="h2">
          {spec.name}
        </Title>
        <PhaseBadge phase={status.phase} />
        {spec.deletion_protection && <ProtectedSign />}
        {status.drift === "drifted" && (
          <Anchor
            component={Link}
            href={`/clusters/${metadata.id}/operations`}
            underline="never"
            c="inherit"
          >
            <DriftBadge status={status.drift} />
          </Anchor>
        )}
        <CopyId id={metadata.id} />
      </Group>
      <Group gap="xs">
        <RecoverButton cluster={cluster} />
        <PauseButton cluster={cluster} />
      </Group>
    </Group>
  );
}

function ProtectedSign() {
  return (
    <Tooltip label="Deletion protection is on">
      <IconLock size={18} role="img" aria-label="Deletion protection is on" />
    </Tooltip>
  );
}

/** Phases in which an operation runs, or has failed. */
const CHANGING = ["PROVISIONING", "UPDATING", "DELETING", "FAILED"];

/** The current operation, shown until it is dismissed. */
function useWatchedOperation(cluster: Cluster | undefined) {
  const [watched, setWatched] = useState<string>();
  const [dismissed, setDismissed] = useState<string>();
  const changing = cluster !== undefined && CHANGING.includes(cluster.status.phase);
  const current = changing ? cluster.status.operation_id : undefined;
  if (current !== undefined && current !== watched) setWatched(current);
  return {
    watched: watched === dismissed ? undefined : watched,
    dismiss: () => setDismissed(watched),
  };
}

function PausedNote() {
  return (
    <Alert color="violet" icon={<IconPlayerPause size={18} />} role="status">
      The cluster is paused. No broker runs and all records are kept. Resume it to let clients
      connect again.
    </Alert>
  );
}

function CopyId({ id }: { id: string }) {
  return (
    <CopyButton value={id}>
      {({ copied, copy }) => (
        <UnstyledButton onClick={copy} aria-label={`Copy cluster ID ${id}`}>
          <Code>{copied ? "copied" : id}</Code>
        </UnstyledButton>
      )}
    </CopyButton>
  );
}
