"use client";

import { Alert, Button, Group, Text } from "@mantine/core";
import { IconUserShield } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { messageOf, useTRPC } from "../api/client.tsx";
import { moment } from "../format/time.ts";
import { endImpersonation } from "./platform-api.ts";

const POLL_MS = 10_000;

/**
 * How often to ask whether the impersonation goes on, in ms. It ends by the API's clock, and somebody can end it earlier;
 * the API then answers the operator 404, and the console leaves the page.
 */
export function pollOf(me: { impersonation?: unknown } | undefined): number | false {
  return me?.impersonation ? POLL_MS : false;
}

/** Shown on every page while a platform operator acts as a member: who, why and until when, with a button that ends it. */
export function ImpersonationBanner() {
  const trpc = useTRPC();
  const router = useRouter();
  const queryClient = useQueryClient();
  const { data: me } = useQuery(
    trpc.account.me.queryOptions({}, { refetchInterval: ({ state }) => pollOf(state.data) }),
  );
  const end = useMutation({
    mutationFn: endImpersonation,
    onSuccess: () => {
      queryClient.clear();
      router.replace("/platform");
    },
  });
  if (!me?.impersonation) return null;
  const { operator, reason, write } = me.impersonation;
  return (
    <Alert
      color="orange"
      radius={0}
      icon={<IconUserShield size={18} />}
      role="region"
      aria-label="Impersonation"
    >
      <Group justify="space-between" gap="sm">
        <Text fz="sm" style={{ overflowWrap: "anywhere" }}>
          Platform operator <b>{operator}</b> acts as <b>{me.user?.email}</b> of{" "}
          <b>{me.organization.name}</b> until {moment(me.impersonation.expires_at)}
          {write ? ", with write access" : ", read-only"}. Reason: {reason}
        </Text>
        <Button size="xs" variant="default" loading={end.isPending} onClick={() => end.mutate()}>
          End impersonation
        </Button>
      </Group>
      {end.error && (
        <Text fz="sm" role="alert">
          {messageOf(end.error)}
        </Text>
      )}
    </Alert>
  );
}
