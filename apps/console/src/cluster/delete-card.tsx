"use client";

import { Button, Card, Group, NumberInput, Radio, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import type { Cluster } from "@millrace/contract";
import { RETAIN_DAYS_MAX, retainDaysDefault } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";

/** Days that are offered where the provider keeps nothing by itself. */
const OFFERED_DAYS = 7;

/** Deletes the cluster, with its data at once or after some days. */
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
              ? "It is protected. Switch the protection off first."
              : "Its topics and all their records go, at once or after some days."}
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
  const usual = retainDaysDefault(cluster.status.provider);
  const [days, setDays] = useState<number | string>(usual);
  const remove = useDeletion(name);
  return (
    <ConfirmByName
      what="cluster"
      name={asked ? name : undefined}
      text="The broker is stopped, and clients are disconnected."
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() =>
        remove.mutate({ cluster_id: cluster.metadata.id, retain_days: Number(days) || 0 })
      }
      onClose={() => {
        remove.reset();
        onClose();
      }}
    >
      <RetainField days={days} usual={usual || OFFERED_DAYS} onChange={setDays} />
    </ConfirmByName>
  );
}

function RetainField(props: {
  days: number | string;
  /** Days to begin with where the data is kept. */
  usual: number;
  onChange: (days: number | string) => void;
}) {
  const { days, usual, onChange } = props;
  return (
    <Radio.Group
      label="The data"
      value={days === 0 ? "gone" : "kept"}
      onChange={(kept) => onChange(kept === "gone" ? 0 : usual)}
    >
      <Stack gap="xs" mt={6}>
        <Radio value="gone" label="is deleted with the cluster, for good" />
        <Radio value="kept" label="is kept for some days, in which the cluster can be restored" />
        {days !== 0 && (
          <NumberInput
            aria-label="Days"
            suffix=" days"
            maw={140}
            ml={32}
            min={1}
            max={RETAIN_DAYS_MAX}
            clampBehavior="strict"
            allowDecimal={false}
            value={days}
            onChange={onChange}
          />
        )}
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
        notifications.show({ message: `The cluster ${name} is being deleted.` });
        router.push("/clusters");
      },
    }),
  );
}
