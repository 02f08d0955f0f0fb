"use client";

import { Card, Code, Group, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { useAllowed, useDenied } from "../session/use-allowed.ts";
import { CopyIcon } from "../shell/copy-icon.tsx";
import { Empty } from "../shell/empty.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { SingleSignOnForm } from "./single-sign-on-form.tsx";

/** Connects the organization to its identity provider. */
export function SingleSignOnPage() {
  const trpc = useTRPC();
  const denied = useDenied("sso:read");
  const allowed = useAllowed("sso:read");
  const { data: me } = useQuery(trpc.account.me.queryOptions({}));
  const { data, error, isPending } = useQuery(
    trpc.singleSignOn.get.queryOptions({}, { enabled: allowed }),
  );
  if (denied) {
    return <Empty title="No permission" text="Owners of the organization manage single sign-on." />;
  }
  return (
    <Stack gap="lg">
      <PageHeader
        title="Single sign-on"
        text="Members sign in with your organization's OpenID Connect provider."
      />
      {error && <ProblemAlert error={error} title="Cannot load single sign-on" />}
      {allowed && isPending && <Skeleton h={240} radius="md" maw={640} />}
      {data && (
        <>
          <Card component="section" aria-label="At your identity provider" maw={640}>
            <Stack gap="xs">
              <Title order={3} fz="h4">
                At your identity provider
              </Title>
              <Text fz="sm">
                Register a web application with the authorization code flow. It must send the claims{" "}
                <Code>email</Code> and <Code>email_verified</Code>.{" "}
                {data.connection
                  ? "Allow this redirect URI:"
                  : "Save the connection to get its redirect URI, then allow it there."}
              </Text>
              {data.connection && (
                <>
                  <Group gap="xs" wrap="nowrap">
                    <Code style={{ overflowWrap: "anywhere" }}>{data.connection.redirect_uri}</Code>
                    <CopyIcon text={data.connection.redirect_uri} label="Copy the redirect URI" />
                  </Group>
                  <Text fz="sm" className="quiet">
                    Members enter their work email on the sign-in page, or{" "}
                    <Code>{me?.organization.slug}</Code>.
                  </Text>
                </>
              )}
            </Stack>
          </Card>
          <SingleSignOnForm key={data.connection?.updated_at} connection={data.connection} />
        </>
      )}
    </Stack>
  );
}
