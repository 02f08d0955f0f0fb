"use client";

import { Button, Code, CopyButton, Group, Modal, Stack, Text } from "@mantine/core";

interface SecretDialogProps {
  opened: boolean;
  /** What is shown once; the form is shown without it. */
  secret: string | undefined;
  /** Of the form, and of the secret. */
  title: string;
  secretTitle: string;
  /** Above the secret. */
  note: string;
  busy: boolean;
  onClose: () => void;
  /** The form. */
  children: React.ReactNode;
}

/**
 * A form that answers with a secret. While the request runs, nothing closes the dialog, and while it shows
 * the secret, only Done does: Escape or a stray click would lose the secret.
 */
export function SecretDialog(props: SecretDialogProps) {
  const { opened, secret, title, secretTitle, note, busy, onClose, children } = props;
  const closable = secret === undefined && !busy;
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      closeOnEscape={closable}
      closeOnClickOutside={closable}
      withCloseButton={closable}
      title={secret === undefined ? title : secretTitle}
    >
      {secret === undefined ? children : <Secret secret={secret} note={note} onDone={onClose} />}
    </Modal>
  );
}

function Secret({ secret, note, onDone }: { secret: string; note: string; onDone: () => void }) {
  return (
    <Stack>
      <Text fz="sm">{note}</Text>
      <Code block data-secret style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
        {secret}
      </Code>
      <Group justify="flex-end">
        <CopyButton value={secret}>
          {({ copied, copy }) => (
            <Button variant="default" onClick={copy} data-autofocus>
              {copied ? "Copied" : "Copy"}
            </Button>
          )}
        </CopyButton>
        <Button onClick={onDone}>Done</Button>
      </Group>
    </Stack>
  );
}
