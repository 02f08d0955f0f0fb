"use client";

import { Badge, Button, Card, Group, Skeleton, Stack, Table, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useEffect, useState } from "react";
import { Empty } from "../shell/empty.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { WideTable } from "../shell/wide-table.tsx";
import { ImpersonateDialog } from "./impersonate-dialog.tsx";
import {
  listOrganizations,
  type PlatformCluster,
  PlatformFailure,
  type PlatformOrganization,
} from "./platform-api.ts";

/** All organizations of the installation, for platform operators. */
export function OrganizationList() {
  const router = useRouter();
  const [chosen, setChosen] = useState<PlatformOrganization>();
  const { data, error, isPending, hasNextPage, isFetchingNextPage, fetchNextPage } =
    useInfiniteQuery({
      queryKey: ["platform", "organizations"],
      queryFn: ({ pageParam }) => listOrganizations(pageParam),
      initialPageParam: "",
      getNextPageParam: ({ next }) => next,
      retry: false,
    });
  const status = error instanceof PlatformFailure ? error.status : undefined;
  useEffect(() => {
    if (status === 401) router.replace("/sign-in?then=/platform");
  }, [status, router]);
  const organizations = data?.pages.flatMap(({ items }) => items) ?? [];
  return (
    <Stack gap="lg">
      <PageHeader
        title="Organizations"
        level={1}
        text="The organizations of this installation and the health of their clusters. To see more, impersonate a member. The organization's audit log records it."
      />
      {status === 404 && (
        <Empty title="No permission" text="This page is for platform operators." />
      )}
      {error && status !== 401 && status !== 404 && (
        <ProblemAlert error={error} title="Cannot load the organizations" />
      )}
      {isPending && <Skeleton h={160} radius="md" />}
      {organizations.length > 0 && (
        <Card padding={0}>
          <WideTable label="Organizations" minWidth={640}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Organization</Table.Th>
                <Table.Th>Members</Table.Th>
                <Table.Th>Clusters</Table.Th>
                <Table.Th w={150} aria-label="Actions" />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {organizations.map((organization) => (
                <Table.Tr key={organization.id} data-organization={organization.slug}>
                  <Table.Td>
                    <Text fz="sm" fw={600}>
                      {organization.name}
                    </Text>
                    <Text fz="xs" className="quiet">
                      {organization.slug}
                    </Text>
                  </Table.Td>
                  <Table.Td>{organization.members}</Table.Td>
                  <Table.Td>
                    <Clusters clusters={organization.clusters} />
                  </Table.Td>
                  <Table.Td>
                    <Button
                      size="xs"
                      variant="default"
                      aria-label={`Impersonate a member of ${organization.name}`}
                      onClick={() => setChosen(organization)}
                    >
                      Impersonate
                    </Button>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </WideTable>
          {hasNextPage && (
            <ShowMore loading={isFetchingNextPage} onClick={() => void fetchNextPage()} />
          )}
        </Card>
      )}
      <ImpersonateDialog
        organization={chosen}
        mayWrite={data?.pages[0]?.may_write ?? false}
        onClose={() => setChosen(undefined)}
      />
    </Stack>
  );
}

function Clusters({ clusters }: { clusters: readonly PlatformCluster[] }) {
  if (clusters.length === 0) return <Text fz="sm">None</Text>;
  return (
    <Stack gap={4}>
      {clusters.map(({ id, name, region, size, phase, ready, reason }) => (
        <Group key={id} gap="xs">
          <Text fz="sm">{name}</Text>
          <Text fz="xs" className="quiet">
            {region}, {size}
          </Text>
          <Badge variant="default" tt="none" fw={500}>
            {ready === "False" && reason ? `${phase}: ${reason}` : phase}
          </Badge>
        </Group>
      ))}
    </Stack>
  );
}
