"use client";

import { Alert, Button, Group } from "@mantine/core";
import { messageOf } from "../api/client.tsx";

interface FormActionsProps {
  /** Label of the submitting button. */
  submit: string;
  color?: string;
  busy: boolean;
  disabled?: boolean;
  /** Of the last attempt, where it belongs to no field. */
  error: unknown;
  cancelDisabled?: boolean;
  onCancel: () => void;
}

/** The end of a dialog's form: what went wrong, and its two buttons. */
export function FormActions(props: FormActionsProps) {
  const { submit, color, busy, disabled, error, cancelDisabled, onCancel } = props;
  return (
    <>
      {error != null && (
        <Alert color="red" role="alert">
          {messageOf(error)}
        </Alert>
      )}
      <Group justify="flex-end">
        <Button variant="default" disabled={cancelDisabled === true} onClick={onCancel}>
          Cancel
        </Button>
        <Button
          type="submit"
          loading={busy}
          disabled={disabled === true}
          {...(color !== undefined && { color })}
        >
          {submit}
        </Button>
      </Group>
    </>
  );
}
