"use client";

import { Button, Group, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedValue, useDisclosure } from "@mantine/hooks";
import type { Acl } from "@millrace/contract";
import { ACL_PRINCIPAL_PATTERN } from "@millrace/domain";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { problemOf, useTRPC } from "../api/client.tsx";
import { useLastError } from "../api/last-error.ts";
import { BrokerDown, useBrokerDown } from "../cluster/broker-down.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import { AclTable } from "./acl-table.tsx";
import { AclTest } from "./acl-test.tsx";
import { AllowClientDialog } from "./allow-client-dialog.tsx";
import { CreateAclDialog } from "./create-acl-dialog.tsx";
import { DeleteAclDialog } from "./delete-acl-dialog.tsx";

/** A cluster's ACLs, and a test of what they mean for somebody. */
export function AclPage({ clusterId }: { clusterId: string }) {
  const down = useBrokerDown(clusterId);
  const mayWrite = useAllowed("acl:write");
  const [principal, setPrincipal] = useState("");
  const [allowing, allow] = useDisclosure(false);
  const [creating, create] = useDisclosure(false);
  const [deleting, setDeleting] = useState<Acl>();
  const { acls, query, error, isOff } = useAcls(clusterId, principal, !down);
  if (down) return <BrokerDown what="ACLs" />;
  if (isOff) {
    return (
      <Empty
        title="This cluster does not check ACLs"
        text="Its broker has no authorizer: every client that connects may do everything."
      />
    );
  }
  return (
    <Stack gap="md">
      <Group justify="space-between" align="end">
        <TextInput
          label="Principal"
          placeholder="User:alice"
          value={principal}
          onChange={(event) => setPrincipal(event.currentTarget.value)}
        />
        {mayWrite && (
          <Group gap="xs">
            <Button variant="default" onClick={create.open}>
              Create ACL
            </Button>
            <Button onClick={allow.open}>Allow a client</Button>
          </Group>
        )}
      </Group>
      {error != null && <ProblemAlert error={error} title="Cannot load the ACLs" />}
      {query.isPending && error == null && <Skeleton h={120} radius="md" />}
      {acls?.length === 0 && (
        <Text className="quiet" fz="sm">
          {principal === "" ? "No ACLs yet." : "No ACL has this principal."}
        </Text>
      )}
      {acls !== undefined && acls.length > 0 && (
        <AclTable acls={acls} mayWrite={mayWrite} onDelete={setDeleting} />
      )}
      {query.hasNextPage && (
        <ShowMore loading={query.isFetchingNextPage} onClick={() => query.fetchNextPage()} />
      )}
      <AclTest clusterId={clusterId} />
      <AllowClientDialog clusterId={clusterId} opened={allowing} onClose={allow.close} />
      <CreateAclDialog clusterId={clusterId} opened={creating} onClose={create.close} />
      <DeleteAclDialog
        clusterId={clusterId}
        acl={deleting}
        onClose={() => setDeleting(undefined)}
      />
    </Stack>
  );
}

const TYPING_MS = 300;

function useAcls(clusterId: string, typed: string, enabled: boolean) {
  const trpc = useTRPC();
  const [principal] = useDebouncedValue(typed.trim(), TYPING_MS);
  const query = useInfiniteQuery(
    trpc.acl.list.infiniteQueryOptions(
      {
        cluster_id: clusterId,
        // Half a principal is not asked for.
        ...(ACL_PRINCIPAL_PATTERN.test(principal) && { principal }),
      },
      { getNextPageParam: (page) => page.next_page_token, retry: false, enabled },
    ),
  );
  const error = useLastError(query);
  return {
    query,
    error,
    acls: query.data?.pages.flatMap((page) => page.items),
    isOff: problemOf(error)?.code === "not_supported",
  };
}
