"use client";

import { Alert, Button, Card, Group, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { PASSWORD_LENGTH_MIN } from "@millrace/domain";
import { useState } from "react";
import { post } from "./account-api.ts";

/** Changes the password, which ends every other session. */
export function PasswordCard() {
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);
  const form = useForm({
    initialValues: { currentPassword: "", newPassword: "" },
    validate: {
      currentPassword: (value) => (value === "" ? "Enter your password" : null),
      newPassword: (value) =>
        value.length >= PASSWORD_LENGTH_MIN
          ? null
          : `Enter at least ${PASSWORD_LENGTH_MIN} characters`,
    },
  });

  async function change(values: typeof form.values) {
    setBusy(true);
    const reply = await post("change-password", values);
    setBusy(false);
    setProblem(reply.ok ? undefined : reply.message);
    if (!reply.ok) return;
    form.reset();
    notifications.show({ message: "Password changed. Other sessions have ended." });
  }

  return (
    <Card component="section" aria-label="Password" maw={560}>
      <form onSubmit={form.onSubmit(change)} noValidate>
        <Stack>
          <div>
            <Title order={3} fz="h4">
              Password
            </Title>
            <Text fz="sm" className="quiet">
              A new password ends every other session.
            </Text>
          </div>
          {problem && (
            <Alert color="red" role="alert">
              {problem}
            </Alert>
          )}
          <PasswordInput
            label="Current password"
            autoComplete="current-password"
            {...form.getInputProps("currentPassword")}
          />
          <PasswordInput
            label="New password"
            description={`At least ${PASSWORD_LENGTH_MIN} characters`}
            autoComplete="new-password"
            {...form.getInputProps("newPassword")}
          />
          <Group justify="flex-end">
            <Button type="submit" loading={busy}>
              Change password
            </Button>
          </Group>
        </Stack>
      </form>
    </Card>
  );
}
