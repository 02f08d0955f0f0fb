"use client";

import { Stack, Title } from "@mantine/core";
import { PasswordCard } from "./password-card.tsx";
import { SecondFactorCard } from "./second-factor-card.tsx";

/** Password and second factor of the signed-in user. */
export function SecurityPage() {
  return (
    <Stack gap="lg">
      <Title order={2} fz="h3">
        Security
      </Title>
      <PasswordCard />
      <SecondFactorCard />
    </Stack>
  );
}
