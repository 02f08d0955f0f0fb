"use client";

import { Alert, Anchor, Button, Stack, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { leaveForProvider } from "./session.ts";

/** Finds the identity provider by an address or the organization's name, and goes there. */
export function SsoForm({ returnTo, onBack }: { returnTo: string; onBack: () => void }) {
  const [name, setName] = useState("");
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    const failed = await leaveForProvider("start", { name: name.trim(), return_to: returnTo });
    // Where it worked, the page is about to go.
    if (failed === undefined) return;
    setBusy(false);
    setProblem(failed);
  }

  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        {problem && (
          <Alert color="red" role="alert">
            {problem}
          </Alert>
        )}
        <TextInput
          label="Work email or organization"
          autoComplete="username"
          autoFocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <Button type="submit" loading={busy} disabled={name.trim() === ""} fullWidth>
          Continue
        </Button>
        <Anchor component="button" type="button" fz="sm" onClick={onBack}>
          Sign in with a password
        </Anchor>
      </Stack>
    </form>
  );
}
