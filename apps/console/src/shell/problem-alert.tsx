"use client";

import { Alert } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { messageOf } from "../api/client.tsx";

/** A failed request, with the API's message. */
export function ProblemAlert({ error, title }: { error: unknown; title: string }) {
  return (
    <Alert color="red" title={title} icon={<IconAlertTriangle size={18} />} role="alert">
      {messageOf(error)}
    </Alert>
  );
}
