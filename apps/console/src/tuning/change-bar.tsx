"use client";

import { Alert, Button, Card, Group, Stack, Text } from "@mantine/core";
import { messageOf } from "../api/client.tsx";
import type { TuningEdit } from "./tuning-edit.ts";

/** Stays in sight while something is being changed. */
export function ChangeBar({ edit }: { edit: TuningEdit }) {
  const { changes, errors, draft, refusal } = edit;
  if (Object.keys(draft).length === 0) return null;
  const wrong = Object.keys(errors).length;
  return (
    <Card
      component="section"
      aria-label="Your changes"
      padding="md"
      shadow="md"
      pos="sticky"
      bottom={12}
      style={{ zIndex: 10 }}
    >
      <Stack gap="sm">
        {refusal != null && (
          <Alert color="red" role="alert">
            {messageOf(refusal)}
          </Alert>
        )}
        <Group justify="space-between">
          <Text fz="sm" role="status">
            {wrong > 0 ? errorText(wrong) : changesText(changes.length)}
          </Text>
          <Group gap="xs">
            <Button variant="default" onClick={edit.discard}>
              Discard
            </Button>
            <Button onClick={edit.preview} loading={edit.busy} disabled={!edit.ready}>
              Preview
            </Button>
          </Group>
        </Group>
      </Stack>
    </Card>
  );
}

function errorText(wrong: number): string {
  return wrong === 1 ? "One value is invalid." : `${wrong} values are invalid.`;
}

function changesText(changes: number): string {
  if (changes === 0) return "No changes yet.";
  return changes === 1 ? "One value changes." : `${changes} values change.`;
}
