"use client";

import { MultiSelect, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { ServiceAccount } from "@millrace/contract";
import { covers, type Permission, permissionsOf, ROLES, type Role } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { optionOf } from "../member/role-words.ts";
import { holdsAll } from "../session/holds-all.ts";
import { usePermissions, useRole } from "../session/use-allowed.ts";
import { FormActions } from "../shell/form-actions.tsx";
import { SecretDialog } from "../shell/secret-dialog.tsx";
import { DEFAULT_EXPIRY, EXPIRIES, type Expiry, expiresAt } from "./expiry.ts";
import { addressesIn, permissionsToAsk, permissionsToGive } from "./key-limits.ts";

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
  const own = useRole();
  const held = usePermissions() ?? [];
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
        const asked = permissionsToAsk(role, held, permissions);
        props.onCreate({
          ...{ name, role, allowed_addresses: addressesIn(addresses) },
          ...(asked && { permissions: asked }),
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
            data={ROLES.filter((role) => own && covers(own, role)).map(optionOf)}
            allowDeselect={false}
            {...form.getInputProps("role")}
          />
        )}
        <PermissionSelect
          role={form.values.role}
          held={held}
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

interface PermissionSelectProps {
  role: Role | "";
  /** What the user has: nobody creates a key that may do more. */
  held: readonly Permission[];
  value?: Permission[];
}

function PermissionSelect({ role, held, ...input }: PermissionSelectProps) {
  const isWhole = role === "" || holdsAll(held, permissionsOf(role));
  const all = isWhole ? "All of the role" : "All of the role that you have";
  return (
    <MultiSelect
      label="Permissions"
      description="Narrow the role to these"
      placeholder={input.value?.length ? "" : all}
      data={role === "" ? [] : permissionsToGive(role, held)}
      searchable
      {...input}
    />
  );
}
