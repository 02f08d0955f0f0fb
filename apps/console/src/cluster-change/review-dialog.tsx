"use client";

import { Button, Group, Modal, Stack, Switch } from "@mantine/core";
import { useState } from "react";
import { ChangePreview, changesNothing } from "../plan/change-preview.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import type { ClusterChange } from "./use-cluster-change.ts";

/** Shows what a change would do, and applies it. */
export function ReviewDialog({ change }: { change: ClusterChange }) {
  const [requireApproval, setRequireApproval] = useState(false);
  const { preview } = change;
  const blocked =
    preview !== undefined &&
    (changesNothing(preview) || preview.policy.some(({ severity }) => severity === "error"));
  return (
    <Modal
      opened={preview !== undefined}
      onClose={change.reconsider}
      size="xl"
      title="Review change"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {preview && (
        <Stack>
          <ChangePreview preview={preview} />
          <Switch
            label="Wait for approval"
            description="Re-plans, then waits for approval"
            checked={requireApproval}
            onChange={(event) => setRequireApproval(event.currentTarget.checked)}
          />
          {change.refusal != null && (
            <ProblemAlert error={change.refusal} title="The cluster was not changed" />
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={change.reconsider}>
              Back
            </Button>
            <Button
              loading={change.busy}
              disabled={blocked}
              onClick={() => change.apply(requireApproval)}
            >
              Apply
            </Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}
