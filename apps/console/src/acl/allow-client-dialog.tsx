"use client";

import { Modal, SegmentedControl, Stack, Switch, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { ACL_PRINCIPAL_PATTERN, type AclTemplate } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";

interface DialogProps {
  clusterId: string;
  opened: boolean;
  onClose: () => void;
}

const TEMPLATES: { value: AclTemplate; label: string }[] = [
  { value: "producer", label: "Producer" },
  { value: "consumer", label: "Consumer" },
];

const PREFIXED_LABELS: Record<AclTemplate, string> = {
  producer: "Also every topic whose name begins with this one",
  consumer: "Also every topic and group whose name begins with these",
};

/** Creates the ACLs that a producer or a consumer needs. */
export function AllowClientDialog({ clusterId, opened, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: {
      ...{ template: "producer" as AclTemplate, principal: "User:", topic: "", group: "" },
      prefixed: false,
    },
    validate: {
      principal: (value) =>
        ACL_PRINCIPAL_PATTERN.test(value) ? null : "Enter a principal like User:alice",
      topic: (value) => (value.trim() ? null : "Enter a topic, or * for every topic"),
      group: (value, { template }) =>
        template === "producer" || value.trim() ? null : "Enter a consumer group, or * for all",
    },
  });
  const apply = useMutation(
    trpc.acl.applyTemplate.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.acl.pathFilter());
        close();
      },
    }),
  );

  function close() {
    form.reset();
    apply.reset();
    onClose();
  }

  const { template } = form.getValues();
  return (
    <Modal opened={opened} onClose={close} title="Allow a client">
      <form
        noValidate
        onSubmit={form.onSubmit(({ prefixed, group, ...values }) =>
          apply.mutate({
            cluster_id: clusterId,
            ...values,
            pattern_type: prefixed ? "prefixed" : "literal",
            ...(values.template === "consumer" && { group }),
          }),
        )}
      >
        <Stack>
          <SegmentedControl
            aria-label="Kind of client"
            data={TEMPLATES}
            {...form.getInputProps("template")}
          />
          <TextInput label="Principal" data-autofocus {...form.getInputProps("principal")} />
          <TextInput label="Topic" placeholder="e.g. orders" {...form.getInputProps("topic")} />
          {template === "consumer" && (
            <TextInput
              label="Consumer group"
              placeholder="e.g. billing"
              {...form.getInputProps("group")}
            />
          )}
          <Switch
            label={PREFIXED_LABELS[template]}
            {...form.getInputProps("prefixed", { type: "checkbox" })}
          />
          <FormActions submit="Allow" busy={apply.isPending} error={apply.error} onCancel={close} />
        </Stack>
      </form>
    </Modal>
  );
}
