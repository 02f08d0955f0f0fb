"use client";

import { Modal, NumberInput, SimpleGrid, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { ClientQuota } from "@millrace/contract";
import { QUOTA_DEFAULT } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { mebibytesOf, quotaWords, rateOf } from "./quota-words.ts";

interface DialogProps {
  clusterId: string;
  /** The quota to change; a new one without it. */
  quota: ClientQuota | undefined;
  onClose: () => void;
}

/** Sets the limits of a user, a client ID, or both; an empty limit is none. */
export function SetQuotaDialog({ clusterId, quota, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const form = useForm({ initialValues: valuesOf(quota), validate: validateQuota });
  const set = useMutation(
    trpc.quota.set.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.quota.list.pathFilter());
        onClose();
      },
    }),
  );

  function send(values: QuotaValues) {
    set.mutate({
      cluster_id: clusterId,
      ...(values.user !== "" && { user: values.user }),
      ...(values.clientId !== "" && { client_id: values.clientId }),
      producer_byte_rate: rateOf(values.produce),
      consumer_byte_rate: rateOf(values.consume),
      request_percentage: values.requests === "" ? null : Number(values.requests),
      controller_mutation_rate: values.mutations === "" ? null : Number(values.mutations),
    });
  }

  const title = quota === undefined ? "Set quota" : `Edit quota of ${quotaWords(quota)}`;
  const limit = { min: 0, hideControls: true };
  return (
    <Modal opened onClose={onClose} title={title}>
      <form noValidate onSubmit={form.onSubmit(send)}>
        <Stack>
          {quota === undefined && (
            <SimpleGrid cols={{ base: 1, xs: 2 }}>
              <TextInput
                label="User"
                description={`${QUOTA_DEFAULT}: every other user`}
                data-autofocus
                {...form.getInputProps("user")}
              />
              <TextInput
                label="Client ID"
                description={`${QUOTA_DEFAULT}: every other client ID`}
                {...form.getInputProps("clientId")}
              />
            </SimpleGrid>
          )}
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <NumberInput label="Produce, MiB/s" {...limit} {...form.getInputProps("produce")} />
            <NumberInput label="Consume, MiB/s" {...limit} {...form.getInputProps("consume")} />
            <NumberInput
              label="Request time, % of a processor"
              {...limit}
              {...form.getInputProps("requests")}
            />
            <NumberInput
              label="Partition changes per second"
              {...limit}
              {...form.getInputProps("mutations")}
            />
          </SimpleGrid>
          <FormActions submit="Save" busy={set.isPending} error={set.error} onCancel={onClose} />
        </Stack>
      </form>
    </Modal>
  );
}

interface QuotaValues {
  user: string;
  clientId: string;
  produce: number | string;
  consume: number | string;
  requests: number | string;
  mutations: number | string;
}

function valuesOf(quota: ClientQuota | undefined): QuotaValues {
  return {
    user: quota?.user ?? "",
    clientId: quota?.client_id ?? "",
    produce: mebibytesOf(quota?.producer_byte_rate ?? null),
    consume: mebibytesOf(quota?.consumer_byte_rate ?? null),
    requests: quota?.request_percentage ?? "",
    mutations: quota?.controller_mutation_rate ?? "",
  };
}

function validateQuota({ user, clientId, ...limits }: QuotaValues) {
  const none = Object.values(limits).every((value) => value === "");
  return {
    ...(user === "" && clientId === "" && { user: "Enter a user, a client ID or both" }),
    ...(none && { produce: "Enter at least one limit" }),
    ...Object.fromEntries(
      Object.entries(limits)
        .filter(([, value]) => value !== "" && !(Number(value) > 0))
        .map(([name]) => [name, "Enter a number above 0, or nothing for no limit"]),
    ),
  };
}
