"use client";

import { Stack, Text } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { ApiFailure } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { leaveForProvider } from "./session.ts";

/** The proof of identity of somebody who signed in at an identity provider: sign in there again. */
export function ProviderProof({ onCancel }: { onCancel: () => void }) {
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    const { pathname, search } = window.location;
    const failed = await leaveForProvider("confirm", { return_to: `${pathname}${search}` });
    if (failed === undefined) return;
    setBusy(false);
    setProblem(failed);
  }

  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <Text fz="sm">
          This action needs a new sign-in at your identity provider. You return to this page
          afterwards. Then repeat the action.
        </Text>
        <FormActions
          submit="Continue with single sign-on"
          busy={busy}
          error={problem === undefined ? undefined : new ApiFailure(problem)}
          onCancel={onCancel}
        />
      </Stack>
    </form>
  );
}
