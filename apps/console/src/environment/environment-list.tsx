"use client";

import {
  ActionIcon,
  Anchor,
  Button,
  Card,
  Code,
  Group,
  Skeleton,
  Stack,
  Table,
  Text,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Environment } from "@millrace/contract";
import { IconPencil, IconPlus, IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import Link from "next/link";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { useAllowed } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { DeleteEnvironmentDialog } from "./delete-environment-dialog.tsx";
import { NameEnvironmentDialog } from "./name-environment-dialog.tsx";

/** More environments than this are not looked at one by one. */
const SHOWN_MAX = 200;
/** Clusters are counted per environment from one page. */
const COUNTED_CLUSTERS_MAX = 1_000;

/** Environments keep clusters apart: production from staging, one team from another. */
export function EnvironmentList() {
  const trpc = useTRPC();
  const mayWrite = useAllowed("environment:write");
  const [creating, dialog] = useDisclosure(false);
  const { data, error, isPending } = useQuery(
    trpc.environment.list.queryOptions({ page_size: SHOWN_MAX }),
  );
  return (
    <Stack gap="lg">
      <PageHeader
        title="Environments"
        level={1}
        text="Every cluster belongs to an environment. Cluster names are unique per environment."
      >
        {mayWrite && (
          <Button leftSection={<IconPlus size={16} />} onClick={dialog.open}>
            Create environment
          </Button>
        )}
      </PageHeader>
      {error && <ProblemAlert error={error} title="Cannot load the environments" />}
      {isPending && <Skeleton h={120} radius="md" />}
      {data?.items.length === 0 && (
        <Empty title="No environments" text="Create an environment to create clusters in it." />
      )}
      {data && data.items.length > 0 && (
        <EnvironmentTable environments={data.items} mayWrite={mayWrite} />
      )}
      <NameEnvironmentDialog opened={creating} environment={undefined} onClose={dialog.close} />
    </Stack>
  );
}

function EnvironmentTable(props: { environments: Environment[]; mayWrite: boolean }) {
  const { environments, mayWrite } = props;
  const [renaming, setRenaming] = useState<Environment>();
  const [deleting, setDeleting] = useState<Environment>();
  const counts = useClusterCounts();
  return (
    <Card padding={0}>
      <Table.ScrollContainer minWidth={640}>
        <Table horizontalSpacing="lg">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Name</Table.Th>
              <Table.Th>ID</Table.Th>
              <Table.Th ta="right">Clusters</Table.Th>
              <Table.Th>Created</Table.Th>
              {mayWrite && <Table.Th w={100} aria-label="Actions" />}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {environments.map((environment) => (
              <Table.Tr key={environment.id} data-environment={environment.name}>
                <Table.Td fw={600}>{environment.name}</Table.Td>
                <Table.Td>
                  <Code>{environment.id}</Code>
                </Table.Td>
                <Table.Td ta="right" className="number">
                  <Clusters count={counts?.get(environment.id) ?? (counts ? 0 : undefined)} />
                </Table.Td>
                <Table.Td>
                  <Text fz="sm" className="quiet" title={moment(environment.created_at)}>
                    {ago(environment.created_at)}
                  </Text>
                </Table.Td>
                {mayWrite && (
                  <Table.Td>
                    <Actions
                      name={environment.name}
                      onRename={() => setRenaming(environment)}
                      onDelete={() => setDeleting(environment)}
                    />
                  </Table.Td>
                )}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <NameEnvironmentDialog
        opened={renaming !== undefined}
        environment={renaming}
        onClose={() => setRenaming(undefined)}
      />
      <DeleteEnvironmentDialog environment={deleting} onClose={() => setDeleting(undefined)} />
    </Card>
  );
}

function Clusters({ count }: { count: number | undefined }) {
  if (count === undefined) return "–";
  if (count === 0) return "0";
  return (
    <Anchor component={Link} href="/clusters" fz="sm">
      {count}
    </Anchor>
  );
}

function Actions(props: { name: string; onRename: () => void; onDelete: () => void }) {
  return (
    <Group gap={4} wrap="nowrap" justify="flex-end">
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={`Rename environment ${props.name}`}
        onClick={props.onRename}
      >
        <IconPencil size={16} />
      </ActionIcon>
      <ActionIcon
        variant="subtle"
        color="red"
        aria-label={`Delete environment ${props.name}`}
        onClick={props.onDelete}
      >
        <IconTrash size={16} />
      </ActionIcon>
    </Group>
  );
}

/** How many clusters each environment has; unknown while, or where, they cannot be listed. */
function useClusterCounts(): Map<string, number> | undefined {
  const trpc = useTRPC();
  const { data } = useQuery(trpc.cluster.list.queryOptions({ page_size: COUNTED_CLUSTERS_MAX }));
  if (data === undefined) return undefined;
  const counts = new Map<string, number>();
  for (const { spec } of data.items) {
    counts.set(spec.environment_id, (counts.get(spec.environment_id) ?? 0) + 1);
  }
  return counts;
}
