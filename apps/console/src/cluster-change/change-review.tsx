"use client";

import { Switch } from "@mantine/core";
import { useState } from "react";
import { ChangePreview, changesNothing } from "../plan/change-preview.tsx";
import { ReviewDialog } from "../shell/review-dialog.tsx";
import type { ClusterChange } from "./use-cluster-change.ts";

/** Shows what a change would do, and applies it. */
export function ChangeReview({ change }: { change: ClusterChange }) {
  const [requireApproval, setRequireApproval] = useState(false);
  const { preview } = change;
  const blocked =
    preview !== undefined &&
    (changesNothing(preview) || preview.policy.some(({ severity }) => severity === "error"));
  return (
    <ReviewDialog
      opened={preview !== undefined}
      title="Review change"
      size="xl"
      confirm="Apply"
      cancel="Back"
      busy={change.busy}
      blocked={blocked}
      error={change.refusal}
      errorTitle="The cluster was not changed"
      focusConfirm={false}
      onConfirm={() => change.apply(requireApproval)}
      onClose={change.reconsider}
    >
      {preview && (
        <>
          <ChangePreview preview={preview} />
          <Switch
            label="Wait for approval"
            description="Plans again, and applies only after somebody approves"
            checked={requireApproval}
            onChange={(event) => setRequireApproval(event.currentTarget.checked)}
          />
        </>
      )}
    </ReviewDialog>
  );
}
