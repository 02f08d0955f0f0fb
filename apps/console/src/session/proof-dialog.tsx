"use client";

import { Modal, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { confirmIdentity, hasSecondFactor, usesSingleSignOn } from "../account/account-api.ts";
import { ApiFailure } from "../api/client.tsx";
import { FormActions } from "../shell/form-actions.tsx";
import { onProofNeeded } from "./proof.ts";
import { ProviderProof } from "./provider-proof.tsx";

/** Asks for the password, and for a code where there is a second factor, whenever the API wants it. */
export function ProofDialog() {
  const [opened, setOpened] = useState(false);
  const [needsCode, setNeedsCode] = useState(false);
  const [isSso, setIsSso] = useState(false);
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);
  const answer = useRef<(isGiven: boolean) => void>(undefined);

  useEffect(
    () =>
      onProofNeeded(async () => {
        const sso = await usesSingleSignOn();
        setIsSso(sso);
        setNeedsCode(!sso && (await hasSecondFactor()) === true);
        setOpened(true);
        return new Promise((resolve) => {
          answer.current = resolve;
        });
      }),
    [],
  );

  function end(isGiven: boolean) {
    setOpened(false);
    setPassword("");
    setCode("");
    setProblem(undefined);
    answer.current?.(isGiven);
  }

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    const reply = await confirmIdentity(password, code);
    setBusy(false);
    if (reply.ok) end(true);
    else setProblem(reply.message);
  }

  return (
    <Modal opened={opened} onClose={() => end(false)} title="Confirm your identity" zIndex={400}>
      {isSso ? (
        <ProviderProof onCancel={() => end(false)} />
      ) : (
        <form onSubmit={submit} noValidate>
          <Stack>
            <Text fz="sm">This action needs your password again.</Text>
            <PasswordInput
              label="Your password"
              autoComplete="current-password"
              data-autofocus
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
            />
            {needsCode && (
              <TextInput
                label="Code from your authenticator app"
                inputMode="numeric"
                autoComplete="one-time-code"
                value={code}
                onChange={(event) => setCode(event.currentTarget.value.trim())}
              />
            )}
            <FormActions
              submit="Confirm"
              busy={busy}
              disabled={password === "" || (needsCode && code === "")}
              error={problem === undefined ? undefined : new ApiFailure(problem)}
              onCancel={() => end(false)}
            />
          </Stack>
        </form>
      )}
    </Modal>
  );
}
