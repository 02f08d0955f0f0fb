"use client";

import { Button, Card, Group, NumberInput, Radio, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import type { Cluster } from "@millrace/contract";
import { RETAIN_DAYS_MAX } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { KEPT_BY_DEFAULT, type RetentionDraft, retainDays } from "./retention.ts";

/** Deletes the cluster, with its data now or after some days. */
export function DeleteCard({ cluster }: { cluster: Cluster }) {
  const [asked, setAsked] = useState(false);
  const isProtected = cluster.spec.deletion_protection;
  return (
    <Card component="section" aria-label="Delete">
      <Group justify="space-between">
        <div>
          <Text fw={600}>Delete this cluster</Text>
          <Text fz="sm" className="quiet">
            {isProtected
              ? "Deletion protection is on. Turn it off first."
              : "Stops the broker. Topics and records can be restored for 7 days, unless you delete them now."}
          </Text>
        </div>
        <Button color="red.9" disabled={isProtected} onClick={() => setAsked(true)}>
          Delete cluster
        </Button>
      </Group>
      <DeleteDialog cluster={cluster} asked={asked} onClose={() => setAsked(false)} />
    </Card>
  );
}

function DeleteDialog(props: { cluster: Cluster; asked: boolean; onClose: () => void }) {
  const { cluster, asked, onClose } = props;
  const { name } = cluster.spec;
  const [draft, setDraft] = useState(KEPT_BY_DEFAULT);
  const days = retainDays(draft);
  const remove = useDeletion(name);
  return (
    <ConfirmByName
      what="cluster"
      name={asked ? name : undefined}
      text="The broker stops and clients are disconnected."
      busy={remove.isPending}
      error={remove.error}
      ready={days !== undefined}
      onConfirm={() => {
        if (days === undefined) return;
        remove.mutate({ cluster_id: cluster.metadata.id, retain_days: days });
      }}
      onClose={() => {
        remove.reset();
        onClose();
      }}
    >
      <RetainField draft={draft} onChange={setDraft} />
    </ConfirmByName>
  );
}

function RetainField(props: { draft: RetentionDraft; onChange: (draft: RetentionDraft) => void }) {
  const { draft, onChange } = props;
  return (
    <Radio.Group
      label="Data"
      value={draft.kept ? "kept" : "gone"}
      onChange={(value) => onChange({ ...draft, kept: value === "kept" })}
    >
      <Stack gap="xs" mt={6}>
        <Radio value="kept" label="Keep, so that the cluster can be restored" />
        {draft.kept && (
          <NumberInput
            aria-label="Days"
            suffix=" days"
            maw={140}
            ml={32}
            min={1}
            max={RETAIN_DAYS_MAX}
            clampBehavior="strict"
            allowDecimal={false}
            value={draft.days}
            error={retainDays(draft) === undefined && `Enter 1 to ${RETAIN_DAYS_MAX} days`}
            onChange={(days) => onChange({ ...draft, days })}
          />
        )}
        <Radio value="gone" label="Delete now, permanently" />
      </Stack>
    </Radio.Group>
  );
}

function useDeletion(name: string) {
  const trpc = useTRPC();
  const router = useRouter();
  const queryClient = useQueryClient();
  return useMutation(
    trpc.cluster.delete.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.cluster.list.pathFilter());
        notifications.show({ message: `Deleting cluster ${name}.` });
        router.push("/clusters");
      },
    }),
  );
}
