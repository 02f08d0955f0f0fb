"use client";

import { Alert, Button, Stack } from "@mantine/core";
import { PageTitle } from "../../shell/page-title.tsx";

/** What is shown instead of a page that failed; the navigation beside it stays. */
export default function PageError({ reset }: { reset: () => void }) {
  return (
    <Stack align="flex-start">
      <PageTitle>Error</PageTitle>
      <Alert color="red" title="This page cannot be shown" role="alert">
        An error occurred in the page. Try again, or go to another page.
      </Alert>
      <Button variant="default" onClick={reset}>
        Try again
      </Button>
    </Stack>
  );
}
