"use client";

import { Alert, Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { messageOf } from "../api/client.tsx";

interface ConfirmByNameProps {
  /** The kind of thing, in lower case. */
  what: string;
  /** What happens to it; "Delete" where it is not said. */
  verb?: string;
  /** Its name; the dialog is closed without one. */
  name: string | undefined;
  /** What the deletion means. */
  text: string;
  /** Further choices. */
  children?: ReactNode;
  /** False while a choice is missing: nothing can be confirmed. */
  ready?: boolean;
  busy: boolean;
  error: unknown;
  onConfirm: (name: string) => void;
  onClose: () => void;
}

/** Confirms a deletion: the name has to be typed. */
export function ConfirmByName(props: ConfirmByNameProps) {
  const { what, verb = "Delete", name, text, children, ready = true } = props;
  const { busy, error, onConfirm, onClose } = props;
  const [typed, setTyped] = useState("");
  // biome-ignore lint/correctness/useExhaustiveDependencies: another thing starts with an empty field
  useEffect(() => setTyped(""), [name]);

  function submit(event: FormEvent) {
    event.preventDefault();
    if (ready && name !== undefined && typed === name) onConfirm(name);
  }

  return (
    <Modal
      opened={name !== undefined}
      onClose={onClose}
      title={`${verb} ${what} ${name ?? ""}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form onSubmit={submit}>
        <Stack>
          <Text fz="sm">{text}</Text>
          {children}
          <TextInput
            label={`Type ${name ?? ""} to confirm`}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            autoComplete="off"
            data-autofocus
          />
          {error != null && (
            <Alert color="red" role="alert">
              {messageOf(error)}
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" color="red.9" disabled={!ready || typed !== name} loading={busy}>
              {verb} {what}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
