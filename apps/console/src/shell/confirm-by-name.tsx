"use client";

import { Modal, Stack, Text, TextInput } from "@mantine/core";
import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { FormActions } from "./form-actions.tsx";

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
    <Modal opened={name !== undefined} onClose={onClose} title={`${verb} ${what} ${name ?? ""}`}>
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
          <FormActions
            submit={`${verb} ${what}`}
            color="red.9"
            busy={busy}
            disabled={!ready || typed !== name}
            error={error}
            onCancel={onClose}
          />
        </Stack>
      </form>
    </Modal>
  );
}
