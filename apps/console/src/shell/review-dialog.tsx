"use client";

import { Button, Group, Modal, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { ProblemAlert } from "./problem-alert.tsx";

interface ReviewDialogProps {
  opened: boolean;
  title: string;
  size?: "lg" | "xl";
  /** What is reviewed. */
  children: ReactNode;
  /** Labels of the buttons. */
  confirm: string;
  cancel?: string;
  busy: boolean;
  /** The review shows a reason against it. */
  blocked?: boolean;
  error?: unknown;
  /** Of the error. */
  errorTitle?: string;
  /** Whether the dialog opens with the focus on its confirming button. */
  focusConfirm?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

/** Shows what is about to happen, and starts it once it is confirmed. */
export function ReviewDialog(props: ReviewDialogProps) {
  const { opened, title, size, children, confirm, cancel = "Cancel", busy, blocked } = props;
  const { error, errorTitle = "The request failed", focusConfirm = true } = props;
  return (
    <Modal opened={opened} onClose={props.onClose} title={title} {...(size && { size })}>
      <Stack>
        {children}
        {error != null && <ProblemAlert error={error} title={errorTitle} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={props.onClose}>
            {cancel}
          </Button>
          <Button
            loading={busy}
            disabled={blocked === true}
            data-autofocus={focusConfirm || undefined}
            onClick={props.onConfirm}
          >
            {confirm}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
