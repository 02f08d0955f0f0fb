"use client";

import { Alert, Anchor, Button, Stack, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { signInWithCode } from "./session.ts";

/** The second step of a sign-in. */
export function CodeForm({ onDone, onBack }: { onDone: () => void; onBack: () => void }) {
  const [code, setCode] = useState("");
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    const result = await signInWithCode(code.trim());
    setBusy(false);
    if (result.ok) onDone();
    else setProblem(result.message);
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
          label="Code"
          description="From your authenticator app, or a recovery code"
          autoComplete="one-time-code"
          autoFocus
          value={code}
          onChange={(event) => setCode(event.currentTarget.value)}
        />
        <Button type="submit" loading={busy} disabled={code.trim() === ""} fullWidth>
          Verify
        </Button>
        <Anchor component="button" type="button" fz="sm" onClick={onBack}>
          Back
        </Anchor>
      </Stack>
    </form>
  );
}
