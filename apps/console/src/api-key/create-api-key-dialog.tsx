"use client";

import { MultiSelect, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { ServiceAccount } from "@millrace/contract";
import { allows, PERMISSIONS, type Permission, type Role } from "@millrace/domain";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { roleOptions } from "../member/role-words.ts";
import { FormActions } from "../shell/form-actions.tsx";
import { SecretDialog } from "../shell/secret-dialog.tsx";
import { DEFAULT_EXPIRY, EXPIRIES, type Expiry, expiresAt } from "./expiry.ts";
import { addressesIn } from "./key-limits.ts";

interface DialogProps {
  opened: boolean;
  /** Whose key it is; the organization's own without it. */
  account?: ServiceAccount | undefined;
  onClose: () => void;
}

/** Creates a key and shows its secret, which is stored only as a hash. */
export function CreateApiKeyDialog({ opened, account, onClose }: DialogProps) {
  const create = useCreate(account);

  function close() {
    create.reset();
    onClose();
  }

  return (
    <ApiKeyModal opened={opened} secret={create.secret} busy={create.busy} onClose={close}>
      <KeyForm
        fixedRole={account?.role}
        busy={create.busy}
        error={create.error}
        onCreate={create.send}
        onCancel={close}
      />
    </ApiKeyModal>
  );
}

interface NewKey {
  name: string;
  role: Role;
  permissions?: Permission[];
  allowed_addresses: string[];
  expires_at?: string;
}

function useCreate(account: ServiceAccount | undefined) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const options = {
    onSuccess: () => void queryClient.invalidateQueries(trpc.apiKey.list.pathFilter()),
  };
  const own = useMutation(trpc.apiKey.create.mutationOptions(options));
  const ofAccount = useMutation(trpc.serviceAccountKey.create.mutationOptions(options));
  return {
    send: ({ role, ...key }: NewKey) =>
      account
        ? ofAccount.mutate({ service_account_id: account.id, ...key })
        : own.mutate({ role, ...key }),
    secret: own.data?.secret ?? ofAccount.data?.secret,
    busy: own.isPending || ofAccount.isPending,
    error: own.error ?? ofAccount.error,
    reset: () => {
      own.reset();
      ofAccount.reset();
    },
  };
}

/** The key's form, then its secret. */
export function ApiKeyModal(props: {
  opened: boolean;
  secret: string | undefined;
  busy: boolean;
  onClose: () => void;
  children: React.ReactNode;
}) {
  return (
    <SecretDialog
      {...props}
      title="Create API key"
      secretTitle="Copy your API key"
      note="Copy the key now. It is not shown again."
    />
  );
}

function KeyForm(props: {
  /** That of its service account: there is none to choose. */
  fixedRole: Role | undefined;
  busy: boolean;
  error: unknown;
  onCreate: (key: NewKey) => void;
  onCancel: () => void;
}) {
  const trpc = useTRPC();
  const { data: me } = useQuery(trpc.account.me.queryOptions({}));
  const form = useForm({
    initialValues: {
      name: "",
      role: (props.fixedRole ?? "") as Role | "",
      expiry: DEFAULT_EXPIRY as Expiry,
      permissions: [] as Permission[],
      addresses: "",
    },
    validate: {
      name: (value) => (value.trim() ? null : "Enter a name"),
      role: (value) => (value === "" ? "Choose a role" : null),
    },
  });
  return (
    <form
      noValidate
      onSubmit={form.onSubmit(({ name, role, expiry, permissions, addresses }) => {
        if (role === "") return;
        const expires_at = expiresAt(expiry, Date.now());
        props.onCreate({
          ...{ name, role, allowed_addresses: addressesIn(addresses) },
          ...(permissions.length > 0 && { permissions }),
          ...(expires_at !== undefined && { expires_at }),
        });
      })}
    >
      <Stack>
        <TextInput
          label="Name"
          placeholder="e.g. deploy pipeline"
          data-autofocus
          {...form.getInputProps("name")}
        />
        {props.fixedRole === undefined && (
          <Select
            label="Role"
            placeholder="Choose a role"
            data={roleOptions(me?.role)}
            allowDeselect={false}
            {...form.getInputProps("role")}
          />
        )}
        <MultiSelect
          label="Permissions"
          description="Narrow the role to these"
          placeholder={form.values.permissions.length > 0 ? "" : "All of the role"}
          data={PERMISSIONS.filter(
            (permission) => form.values.role !== "" && allows(form.values.role, permission),
          )}
          searchable
          {...form.getInputProps("permissions")}
        />
        <TextInput
          label="Allowed addresses"
          description="IP addresses and CIDR blocks, separated by commas"
          placeholder="Any"
          {...form.getInputProps("addresses")}
        />
        <Select
          label="Expires"
          data={EXPIRIES.map(({ value, label }) => ({ value, label }))}
          allowDeselect={false}
          {...form.getInputProps("expiry")}
        />
        <FormActions
          submit="Create"
          busy={props.busy}
          error={props.error}
          cancelDisabled={props.busy}
          onCancel={props.onCancel}
        />
      </Stack>
    </form>
  );
}
