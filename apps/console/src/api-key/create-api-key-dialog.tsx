"use client";

import {
  Button,
  Code,
  CopyButton,
  Group,
  Modal,
  Select,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { covers, ROLES, type Role } from "@millrace/domain";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { DEFAULT_EXPIRY, EXPIRIES, type Expiry, expiresAt } from "./expiry.ts";

/** What each role lets a program do. */
const ROLE_WORDS: Record<Role, string> = {
  owner: "Owner: everything",
  admin: "Admin: delete clusters, manage members and API keys",
  operator: "Operator: create and change clusters and environments",
  developer: "Developer: manage topics, records and tuning, run benchmarks",
  viewer: "Viewer: read only, no records",
};

/** Creates a key and shows its secret, which is stored only as a hash. */
export function CreateApiKeyDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const create = useMutation(
    trpc.apiKey.create.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.apiKey.list.pathFilter()),
    }),
  );

  function close() {
    create.reset();
    onClose();
  }

  return (
    <ApiKeyModal
      opened={opened}
      secret={create.data?.secret}
      busy={create.isPending}
      onClose={close}
    >
      <KeyForm
        busy={create.isPending}
        error={create.error}
        onCreate={create.mutate}
        onCancel={close}
      />
    </ApiKeyModal>
  );
}

/**
 * While a key is being created, nothing closes the dialog, and while it shows the secret, only Done
 * does: Escape or a stray click would lose the secret.
 */
export function ApiKeyModal(props: {
  opened: boolean;
  secret: string | undefined;
  busy: boolean;
  onClose: () => void;
  children: React.ReactNode;
}) {
  const { opened, secret, busy, onClose, children } = props;
  const closable = secret === undefined && !busy;
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      closeOnEscape={closable}
      closeOnClickOutside={closable}
      withCloseButton={closable}
      title={secret === undefined ? "Create API key" : "Copy your API key"}
    >
      {secret === undefined ? children : <Secret secret={secret} onDone={onClose} />}
    </Modal>
  );
}

function KeyForm(props: {
  busy: boolean;
  error: unknown;
  onCreate: (key: { name: string; role: Role; expires_at?: string }) => void;
  onCancel: () => void;
}) {
  const trpc = useTRPC();
  const { data: me } = useQuery(trpc.account.me.queryOptions({}));
  const form = useForm({
    initialValues: { name: "", role: "" as Role | "", expiry: DEFAULT_EXPIRY as Expiry },
    validate: {
      name: (value) => (value.trim() ? null : "Enter a name"),
      role: (value) => (value === "" ? "Choose a role" : null),
    },
  });
  // Nobody creates a key that may do more than they may.
  const roles = ROLES.filter((role) => me !== undefined && covers(me.role, role));
  return (
    <form
      noValidate
      onSubmit={form.onSubmit(({ name, role, expiry }) => {
        if (role === "") return;
        const expires_at = expiresAt(expiry, Date.now());
        props.onCreate({ name, role, ...(expires_at !== undefined && { expires_at }) });
      })}
    >
      <Stack>
        <TextInput
          label="Name"
          placeholder="e.g. deploy pipeline"
          data-autofocus
          {...form.getInputProps("name")}
        />
        <Select
          label="Role"
          placeholder="Choose a role"
          data={roles.map((role) => ({ value: role, label: ROLE_WORDS[role] }))}
          allowDeselect={false}
          {...form.getInputProps("role")}
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

function Secret({ secret, onDone }: { secret: string; onDone: () => void }) {
  return (
    <Stack>
      <Text fz="sm">Copy the key now. It is not shown again.</Text>
      <Code block style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
        {secret}
      </Code>
      <Group justify="flex-end">
        <CopyButton value={secret}>
          {({ copied, copy }) => (
            <Button variant="default" onClick={copy} data-autofocus>
              {copied ? "Copied" : "Copy"}
            </Button>
          )}
        </CopyButton>
        <Button onClick={onDone}>Done</Button>
      </Group>
    </Stack>
  );
}
