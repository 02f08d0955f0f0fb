"use client";

import { Modal, Select, SimpleGrid, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Acl } from "@millrace/contract";
import {
  ACL_CLUSTER_NAME,
  ACL_PERMISSIONS,
  ACL_PRINCIPAL_PATTERN,
  ACL_RESOURCE_TYPES,
  type AclResourceType,
  aclOperationsOf,
} from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { wordsOf } from "./acl-words.ts";

interface DialogProps {
  clusterId: string;
  opened: boolean;
  onClose: () => void;
}

const EMPTY: Acl = {
  principal: "User:",
  resource_type: "topic",
  resource_name: "",
  pattern_type: "literal",
  operation: "read",
  permission: "allow",
  host: "*",
};
const PATTERNS = [
  { value: "literal", label: "exactly this name" },
  { value: "prefixed", label: "begins with" },
];

export const optionsOf = (names: readonly string[]) =>
  names.map((value) => ({ value, label: wordsOf(value) }));

/** Creates one ACL, field by field. */
export function CreateAclDialog({ clusterId, opened, onClose }: DialogProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: EMPTY,
    validate: {
      principal: (value) =>
        ACL_PRINCIPAL_PATTERN.test(value) ? null : "Enter a principal like User:alice",
      resource_name: (value, { resource_type }) =>
        resource_type === "cluster" || value.trim() ? null : "Enter a name, or * for all",
      host: (value) => (value.trim() ? null : "Enter an IP address, or * for every address"),
    },
  });
  const create = useMutation(
    trpc.acl.create.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.acl.pathFilter());
        close();
      },
    }),
  );

  function close() {
    form.reset();
    create.reset();
    onClose();
  }

  function send(acl: Acl) {
    const ofCluster = { resource_name: ACL_CLUSTER_NAME, pattern_type: "literal" as const };
    create.mutate({
      cluster_id: clusterId,
      ...acl,
      ...(acl.resource_type === "cluster" && ofCluster),
    });
  }

  const { resource_type: type } = form.getValues();
  const operations = aclOperationsOf(type);
  return (
    <Modal opened={opened} onClose={close} title="Create ACL">
      <form noValidate onSubmit={form.onSubmit(send)}>
        <Stack>
          <TextInput label="Principal" data-autofocus {...form.getInputProps("principal")} />
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <Select
              label="Permission"
              data={optionsOf(ACL_PERMISSIONS)}
              allowDeselect={false}
              {...form.getInputProps("permission")}
            />
            <Select
              label="Operation"
              data={optionsOf(operations)}
              allowDeselect={false}
              {...form.getInputProps("operation")}
            />
            <Select
              label="Resource"
              data={optionsOf(ACL_RESOURCE_TYPES)}
              allowDeselect={false}
              {...form.getInputProps("resource_type")}
              // Other resources know other operations.
              onChange={(value) =>
                form.setValues({ resource_type: value as AclResourceType, operation: "all" })
              }
            />
            {type !== "cluster" && (
              <Select
                label="Pattern"
                data={PATTERNS}
                allowDeselect={false}
                {...form.getInputProps("pattern_type")}
              />
            )}
          </SimpleGrid>
          {type !== "cluster" && (
            <TextInput label="Resource name" {...form.getInputProps("resource_name")} />
          )}
          <TextInput
            label="Host"
            description="Address of the client; * is every address"
            {...form.getInputProps("host")}
          />
          <FormActions
            submit="Create"
            busy={create.isPending}
            error={create.error}
            onCancel={close}
          />
        </Stack>
      </form>
    </Modal>
  );
}
