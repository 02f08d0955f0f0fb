"use client";

import { Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { usesSingleSignOn } from "./account-api.ts";
import { PasswordCard } from "./password-card.tsx";
import { SecondFactorCard } from "./second-factor-card.tsx";

/** Password and second factor of the signed-in user. */
export function SecurityPage() {
  const { data: isSso } = useQuery({ queryKey: ["uses-sso"], queryFn: usesSingleSignOn });
  return (
    <Stack gap="lg">
      <Title order={2} fz="h3">
        Security
      </Title>
      {isSso === undefined && <Skeleton h={240} radius="md" maw={560} />}
      {isSso === true && (
        <Text>
          You signed in with single sign-on. Your identity provider manages your password and second
          factor.
        </Text>
      )}
      {isSso === false && (
        <>
          <PasswordCard />
          <SecondFactorCard />
        </>
      )}
    </Stack>
  );
}
