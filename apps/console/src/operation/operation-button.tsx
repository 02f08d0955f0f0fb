"use client";

import { Button } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ReactNode } from "react";
import { ReviewDialog } from "../shell/review-dialog.tsx";

/** A mutation that starts an operation of a cluster. */
interface Start {
  mutate(request: { cluster_id: string }, options: { onSuccess: () => void }): void;
  readonly isPending: boolean;
  readonly error: unknown;
}

interface OperationButtonProps {
  clusterId: string;
  start: Start;
  label: string;
  icon: ReactNode;
  /** Of the review. */
  title: string;
  /** What the operation does. */
  children: ReactNode;
  /** Label of the button that starts it. */
  confirm: string;
  /** Title of the alert where it was not started. */
  refusal: string;
}

/** A button that opens a review of an operation, and starts it. */
export function OperationButton(props: OperationButtonProps) {
  const { clusterId, start, label, icon, title, children, confirm, refusal } = props;
  const [opened, dialog] = useDisclosure(false);
  return (
    <>
      <Button variant="default" size="xs" leftSection={icon} onClick={dialog.open}>
        {label}
      </Button>
      <ReviewDialog
        opened={opened}
        title={title}
        confirm={confirm}
        busy={start.isPending}
        error={start.error}
        errorTitle={refusal}
        onConfirm={() => start.mutate({ cluster_id: clusterId }, { onSuccess: dialog.close })}
        onClose={dialog.close}
      >
        {children}
      </ReviewDialog>
    </>
  );
}
