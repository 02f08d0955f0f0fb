"use client";

import {
  Alert,
  Badge,
  Button,
  Card,
  Code,
  CopyButton,
  Group,
  PasswordInput,
  Skeleton,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { hasSecondFactor, post, type SecondFactorSetup } from "./account-api.ts";
import { setupKey } from "./setup-key.ts";

const QUERY_KEY = ["second-factor"];

/** Turns the second factor on and off. */
export function SecondFactorCard() {
  const queryClient = useQueryClient();
  const [setup, setSetup] = useState<SecondFactorSetup>();
  const { data: enabled } = useQuery({
    queryKey: QUERY_KEY,
    queryFn: async () => (await hasSecondFactor()) ?? null,
  });
  const refresh = () => {
    setSetup(undefined);
    void queryClient.invalidateQueries({ queryKey: QUERY_KEY });
  };
  return (
    <Card component="section" aria-label="Second factor" maw={560}>
      <Stack>
        <div>
          <Group gap="sm">
            <Title order={3} fz="h4">
              Second factor
            </Title>
            {enabled != null && (
              <Badge variant="default" tt="none">
                {enabled ? "On" : "Off"}
              </Badge>
            )}
          </Group>
          <Text fz="sm" className="quiet">
            A code from an authenticator app (TOTP), asked for at sign-in and before destructive
            actions.
          </Text>
        </div>
        {enabled === undefined && <Skeleton h={80} />}
        {enabled === null && (
          <Alert color="red">Cannot reach the API. Try again in a moment.</Alert>
        )}
        {setup && <Setup setup={setup} onDone={refresh} />}
        {enabled === false && !setup && (
          <PasswordStep
            label="Set up second factor"
            path="two-factor/enable"
            onDone={(answer) => setSetup(answer as SecondFactorSetup)}
          />
        )}
        {enabled === true && (
          <PasswordStep label="Turn off second factor" path="two-factor/disable" onDone={refresh} />
        )}
      </Stack>
    </Card>
  );
}

/** Asks for the password, and then for what it protects. */
function PasswordStep(props: { label: string; path: string; onDone: (answer: unknown) => void }) {
  const [password, setPassword] = useState("");
  const { busy, problem, submit } = useStep(props.path, { password }, props.onDone);
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <Problem text={problem} />
        <PasswordInput
          label="Your password"
          autoComplete="current-password"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        <Group justify="flex-end">
          <Button type="submit" variant="default" loading={busy} disabled={password === ""}>
            {props.label}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function Setup({ setup, onDone }: { setup: SecondFactorSetup; onDone: () => void }) {
  const [code, setCode] = useState("");
  const { busy, problem, submit } = useStep("two-factor/verify-totp", { code }, onDone);
  const codes = setup.backupCodes.join("\n");
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <Text fz="sm">1. Add this key to your authenticator app:</Text>
        <Code block data-setup-key style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
          {setupKey(setup.totpURI)}
        </Code>
        <Text fz="sm">
          2. Keep these recovery codes. Each works once in place of a code. They are not shown
          again.
        </Text>
        <Code block data-recovery-codes>
          {codes}
        </Code>
        <CopyButton value={codes}>
          {({ copied, copy }) => (
            <Button variant="default" onClick={copy}>
              {copied ? "Copied" : "Copy recovery codes"}
            </Button>
          )}
        </CopyButton>
        <Problem text={problem} />
        <TextInput
          label="3. Code from the app"
          inputMode="numeric"
          autoComplete="one-time-code"
          value={code}
          onChange={(event) => setCode(event.currentTarget.value.trim())}
        />
        <Group justify="flex-end">
          <Button type="submit" loading={busy} disabled={code === ""}>
            Turn on second factor
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function Problem({ text }: { text: string | undefined }) {
  if (text === undefined) return null;
  return (
    <Alert color="red" role="alert">
      {text}
    </Alert>
  );
}

function useStep(path: string, body: object, onDone: (answer: unknown) => void) {
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);
  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    const reply = await post(path, body);
    setBusy(false);
    setProblem(reply.ok ? undefined : reply.message);
    if (reply.ok) onDone(reply.value);
  }
  return { busy, problem, submit };
}
