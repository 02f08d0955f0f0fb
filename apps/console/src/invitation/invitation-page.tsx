"use client";

import {
  Alert,
  Button,
  PasswordInput,
  Skeleton,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { PASSWORD_LENGTH_MIN } from "@millrace/domain";
import { useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useEffect, useState } from "react";
import { chooseOrganization } from "../session/organization.ts";
import { signIn } from "../session/session.ts";
import { acceptInvitation, type OpenedInvitation, openInvitation } from "./invitation-api.ts";

/** Where the token waits while its owner signs in: this tab alone, and in no address that is logged. */
const KEPT = "millrace-invitation";

/** Shows what a link invites to, and accepts it. */
export function InvitationPage() {
  const [token, setToken] = useState("");
  const [opened, setOpened] = useState<OpenedInvitation>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    const found = window.location.hash.slice(1) || sessionStorage.getItem(KEPT) || "";
    setToken(found);
    // The token stays out of the browser's history.
    window.history.replaceState(null, "", window.location.pathname);
    void openInvitation(found).then((answer) =>
      answer.ok ? setOpened(answer.value) : setProblem(answer.message),
    );
  }, []);
  if (problem !== undefined) return <Problem text={problem} />;
  if (opened === undefined) return <Skeleton h={160} />;
  return (
    <Stack gap="lg">
      <div>
        <Title order={1} fz="h3">
          Join {opened.organization.name}
        </Title>
        <Text className="quiet" fz="sm">
          {opened.email} is invited as {opened.role}.
        </Text>
      </div>
      {opened.has_account ? (
        <ExistingAccount token={token} email={opened.email} />
      ) : (
        <NewAccount token={token} email={opened.email} />
      )}
    </Stack>
  );
}

function Problem({ text }: { text: string }) {
  return (
    <Stack>
      <Title order={1} fz="h3">
        Invitation
      </Title>
      <Alert color="red" role="alert">
        {text}
      </Alert>
    </Stack>
  );
}

/** The console as whoever has just joined sees it. */
function useEnter(): (organizationId: string) => void {
  const router = useRouter();
  const queryClient = useQueryClient();
  return (organizationId) => {
    sessionStorage.removeItem(KEPT);
    chooseOrganization(organizationId);
    queryClient.clear();
    router.replace("/clusters");
  };
}

function ExistingAccount({ token, email }: { token: string; email: string }) {
  const router = useRouter();
  const enter = useEnter();
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);

  async function join() {
    setBusy(true);
    const answer = await acceptInvitation(token);
    setBusy(false);
    if (answer.ok) return enter(answer.value.organization_id);
    if (answer.code !== "account_exists") return setProblem(answer.message);
    sessionStorage.setItem(KEPT, token);
    router.push("/sign-in?then=/invitation");
  }

  return (
    <Stack>
      <Text fz="sm">
        This address has an account. Join with it; you are asked to sign in as {email} if you are
        not.
      </Text>
      {problem && (
        <Alert color="red" role="alert">
          {problem}
        </Alert>
      )}
      <Button loading={busy} onClick={join} fullWidth>
        Join
      </Button>
    </Stack>
  );
}

function NewAccount({ token, email }: { token: string; email: string }) {
  const enter = useEnter();
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);
  const form = useForm({
    initialValues: { name: "", password: "" },
    validate: {
      name: (value) => (value.trim() ? null : "Enter your name"),
      password: (value) =>
        value.length >= PASSWORD_LENGTH_MIN
          ? null
          : `Enter at least ${PASSWORD_LENGTH_MIN} characters`,
    },
  });

  async function join(account: { name: string; password: string }) {
    setBusy(true);
    setProblem(undefined);
    const answer = await acceptInvitation(token, account);
    const entered = answer.ok ? await signIn(email, account.password) : undefined;
    setBusy(false);
    if (!answer.ok) return setProblem(answer.message);
    if (entered && !entered.ok) return setProblem(entered.message);
    enter(answer.value.organization_id);
  }

  return (
    <form onSubmit={form.onSubmit(join)} noValidate>
      <Stack>
        {problem && (
          <Alert color="red" role="alert">
            {problem}
          </Alert>
        )}
        <TextInput label="Your name" autoComplete="name" {...form.getInputProps("name")} />
        <TextInput label="Email" value={email} autoComplete="username" readOnly />
        <PasswordInput
          label="Password"
          description={`At least ${PASSWORD_LENGTH_MIN} characters`}
          autoComplete="new-password"
          {...form.getInputProps("password")}
        />
        <Button type="submit" loading={busy} fullWidth>
          Create account and join
        </Button>
      </Stack>
    </form>
  );
}
