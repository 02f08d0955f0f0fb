"use client";

import {
  Alert,
  Button,
  Card,
  Group,
  PasswordInput,
  Select,
  Stack,
  Switch,
  TagsInput,
  TextInput,
  Title,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { permissionsOf, SSO_DOMAINS_MAX } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { messageOf, useTRPC } from "../api/client.tsx";
import { roleOptions } from "../member/role-words.ts";
import { RemoveSingleSignOnDialog } from "./remove-single-sign-on-dialog.tsx";
import { type Connection, draftOf, problemsOf, requestOf } from "./sso-draft.ts";

/** Roles that a first sign-in can give: nobody becomes an owner by signing in. */
const ROLES = roleOptions([...permissionsOf("admin")]);

export function SingleSignOnForm({ connection }: { connection: Connection | null }) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const [removing, dialog] = useDisclosure(false);
  const form = useForm({
    initialValues: draftOf(connection),
    validate: (draft) => problemsOf(draft, connection),
  });
  const save = useMutation(
    trpc.singleSignOn.set.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.singleSignOn.pathFilter());
        notifications.show({ message: "Single sign-on saved." });
      },
    }),
  );
  return (
    <Card component="section" aria-label="Connection" maw={640}>
      <form noValidate onSubmit={form.onSubmit((draft) => save.mutate(requestOf(draft)))}>
        <Stack>
          <Title order={3} fz="h4">
            Connection
          </Title>
          <TextInput
            label="Issuer"
            description="The provider's address, as in its OpenID metadata"
            placeholder="https://login.example.com"
            {...form.getInputProps("issuer")}
          />
          <TextInput label="Client ID" autoComplete="off" {...form.getInputProps("clientId")} />
          <PasswordInput
            label="Client secret"
            description={connection ? "Leave empty to keep the stored one" : "Stored encrypted"}
            autoComplete="off"
            {...form.getInputProps("clientSecret")}
          />
          <TagsInput
            label="Email domains"
            description="Only people with a verified address of these domains can sign in"
            maxTags={SSO_DOMAINS_MAX}
            {...form.getInputProps("domains")}
          />
          <Select
            label="Role of new members"
            description="Whoever signs in for the first time becomes a member with this role"
            data={ROLES}
            allowDeselect={false}
            {...form.getInputProps("defaultRole")}
          />
          <Switch
            label="Require single sign-on"
            description="Members other than owners cannot use passwords. API keys keep working."
            {...form.getInputProps("required", { type: "checkbox" })}
          />
          {save.error && (
            <Alert color="red" role="alert">
              {messageOf(save.error)}
            </Alert>
          )}
          <Group justify="flex-end">
            {connection && (
              <Button variant="default" onClick={dialog.open}>
                Remove
              </Button>
            )}
            <Button type="submit" loading={save.isPending}>
              Save
            </Button>
          </Group>
        </Stack>
      </form>
      <RemoveSingleSignOnDialog opened={removing} onClose={dialog.close} />
    </Card>
  );
}
