"use client";

import { Alert, Button, Group, Text } from "@mantine/core";
import { IconUserShield } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useEffect } from "react";
import { messageOf, useTRPC } from "../api/client.tsx";
import { moment } from "../format/time.ts";
import { endImpersonation } from "./platform-api.ts";

/** Shown on every page while a platform operator acts as a member: who, why and until when, with a button that ends it. */
export function ImpersonationBanner() {
  const trpc = useTRPC();
  const router = useRouter();
  const queryClient = useQueryClient();
  const { data: me } = useQuery(trpc.account.me.queryOptions({}));
  const expiresAt = me?.impersonation?.expires_at;
  const end = useMutation({
    mutationFn: endImpersonation,
    onSuccess: () => {
      queryClient.clear();
      router.replace("/platform");
    },
  });
  useEffect(() => {
    if (expiresAt === undefined) return;
    const timer = setTimeout(
      () => void queryClient.invalidateQueries(),
      Math.max(0, Date.parse(expiresAt) - Date.now()),
    );
    return () => clearTimeout(timer);
  }, [expiresAt, queryClient]);
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
