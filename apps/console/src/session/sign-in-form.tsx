"use client";

import { Alert, Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearchParams } from "next/navigation";
import { useState } from "react";
import { CodeForm } from "./code-form.tsx";
import { returnPath } from "./return-path.ts";
import { signIn } from "./session.ts";
import { SsoForm } from "./sso-form.tsx";
import { ssoRefusalText } from "./sso-refusal-text.ts";

export function SignInForm() {
  const router = useRouter();
  const search = useSearchParams();
  const queryClient = useQueryClient();
  const [problem, setProblem] = useState(() => ssoRefusalText(search.get("sso")));
  const [busy, setBusy] = useState(false);
  const [needsCode, setNeedsCode] = useState(false);
  const [usesSso, setUsesSso] = useState(false);
  const form = useForm({
    mode: "uncontrolled",
    initialValues: { email: "", password: "" },
    validate: {
      email: (value) => (value.includes("@") ? null : "Enter your email address"),
      password: (value) => (value === "" ? "Enter your password" : null),
    },
  });

  async function submit({ email, password }: { email: string; password: string }) {
    setBusy(true);
    setProblem(undefined);
    const result = await signIn(email, password);
    setBusy(false);
    if (!result.ok) return setProblem(result.message);
    if (result.needsCode) return setNeedsCode(true);
    enter();
  }

  function enter() {
    queryClient.clear();
    router.replace(target());
  }

  function target() {
    return returnPath(search.get("then"), window.location.origin);
  }

  if (needsCode) return <CodeForm onDone={enter} onBack={() => setNeedsCode(false)} />;
  if (usesSso) return <SsoForm returnTo={target()} onBack={() => setUsesSso(false)} />;

  return (
    <form onSubmit={form.onSubmit(submit)} noValidate>
      <Stack>
        {problem && (
          <Alert color="red" role="alert">
            {problem}
          </Alert>
        )}
        <TextInput
          label="Email"
          type="email"
          autoComplete="username"
          autoFocus
          key={form.key("email")}
          {...form.getInputProps("email")}
        />
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          key={form.key("password")}
          {...form.getInputProps("password")}
        />
        <Button type="submit" loading={busy} fullWidth>
          Sign in
        </Button>
        <Button variant="default" fullWidth onClick={() => setUsesSso(true)}>
          Continue with single sign-on
        </Button>
      </Stack>
    </form>
  );
}
