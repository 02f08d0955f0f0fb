"use client";

import {
  ActionIcon,
  Button,
  Group,
  Input,
  Modal,
  NativeSelect,
  Stack,
  Textarea,
  TextInput,
} from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { ApiFailure, useTRPC } from "../api/client.tsx";
import { int64 } from "../format/quantity.ts";
import { FormActions } from "../shell/form-actions.tsx";
import {
  type HeaderDraft,
  type HeaderKind,
  type KeyKind,
  type ProduceDraft,
  producedOf,
  produceErrors,
  type ValueKind,
} from "./produce-draft.ts";
import type { TopicAddress } from "./use-records.ts";

const KEY_KINDS: { value: KeyKind; label: string }[] = [
  { value: "none", label: "No key" },
  { value: "text", label: "Text" },
  { value: "base64", label: "Base64" },
  { value: "hex", label: "Hex" },
];
const VALUE_KINDS: { value: ValueKind; label: string }[] = [
  { value: "text", label: "Text" },
  { value: "json", label: "JSON" },
  { value: "base64", label: "Base64" },
  { value: "hex", label: "Hex" },
  { value: "tombstone", label: "Tombstone (null)" },
];

const HEADER_KINDS: { value: HeaderKind; label: string }[] = [
  { value: "text", label: "Text" },
  { value: "base64", label: "Base64" },
  { value: "hex", label: "Hex" },
  { value: "null", label: "null" },
];

interface DialogProps {
  address: TopicAddress;
  partitions: readonly string[];
  /** What the form begins with; the dialog is closed without it. */
  initial: ProduceDraft | undefined;
  onClose: () => void;
  onProduced: () => void;
}

/** Writes one record to a topic. */
export function ProduceDialog({ initial, onClose, ...props }: DialogProps) {
  return (
    <Modal opened={initial !== undefined} onClose={onClose} size="lg" title="Produce record">
      {initial && <ProduceForm initial={initial} onClose={onClose} {...props} />}
    </Modal>
  );
}

export function ProduceForm(props: DialogProps & { initial: ProduceDraft }) {
  const { address, partitions, initial, onClose, onProduced } = props;
  const [draft, setDraft] = useState(initial);
  const [submitted, setSubmitted] = useState(false);
  const change = (part: Partial<ProduceDraft>) => setDraft({ ...draft, ...part });
  const errors = produceErrors(draft);
  const shown = submitted ? errors : {};
  const produce = useProduce(() => {
    onProduced();
    onClose();
  });

  function submit(event: FormEvent) {
    event.preventDefault();
    setSubmitted(true);
    if (Object.keys(errors).length > 0) return;
    produce.mutate({
      cluster_id: address.clusterId,
      topic_name: address.topic,
      records: [producedOf(draft)],
    });
  }

  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <NativeSelect
          label="Partition"
          value={draft.partition}
          onChange={(event) => change({ partition: event.currentTarget.value })}
          data={[{ value: "", label: "Automatic" }, ...partitions]}
        />
        <Group align="flex-start" wrap="nowrap">
          <NativeSelect
            label="Key"
            w={150}
            value={draft.keyKind}
            onChange={(event) => change({ keyKind: event.currentTarget.value as KeyKind })}
            data={KEY_KINDS}
          />
          {draft.keyKind !== "none" && (
            <TextInput
              flex={1}
              mt={25}
              aria-label="Key, content"
              ff="monospace"
              autoComplete="off"
              value={draft.key}
              error={shown.key}
              onChange={(event) => change({ key: event.currentTarget.value })}
            />
          )}
        </Group>
        <NativeSelect
          label="Value"
          w={150}
          value={draft.valueKind}
          onChange={(event) => change({ valueKind: event.currentTarget.value as ValueKind })}
          data={VALUE_KINDS}
        />
        {draft.valueKind !== "tombstone" && (
          <Textarea
            aria-label="Value, content"
            autosize
            minRows={5}
            maxRows={16}
            data-autofocus
            spellCheck={false}
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
            value={draft.value}
            error={shown.value}
            onChange={(event) => change({ value: event.currentTarget.value })}
          />
        )}
        <HeaderFields draft={draft} error={shown.headers} onChange={change} />
        <FormActions
          submit="Produce"
          busy={produce.isPending}
          error={produce.error}
          onCancel={onClose}
        />
      </Stack>
    </form>
  );
}

interface HeaderFieldsProps {
  draft: ProduceDraft;
  error: string | undefined;
  onChange: (part: Partial<ProduceDraft>) => void;
}

function HeaderFields({ draft, error, onChange }: HeaderFieldsProps) {
  const { headers } = draft;
  const set = (index: number, part: Partial<HeaderDraft>) =>
    onChange({ headers: headers.map((each, at) => (at === index ? { ...each, ...part } : each)) });
  return (
    <Input.Wrapper label="Headers" labelElement="div" error={error}>
      <Stack gap="xs" mt={4}>
        {headers.map(({ name, kind, value }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: names may repeat, and rows do not move
          <Group key={index} gap="xs">
            <TextInput
              flex="1 1 120px"
              aria-label={`Header ${index + 1}, name`}
              placeholder="Name"
              value={name}
              error={error !== undefined && name === ""}
              onChange={(event) => set(index, { name: event.currentTarget.value })}
            />
            <NativeSelect
              w={100}
              aria-label={`Header ${index + 1}, type of value`}
              value={kind}
              onChange={(event) => set(index, { kind: event.currentTarget.value as HeaderKind })}
              data={HEADER_KINDS}
            />
            <TextInput
              flex="2 1 140px"
              aria-label={`Header ${index + 1}, value`}
              placeholder="Value"
              disabled={kind === "null"}
              value={kind === "null" ? "" : value}
              onChange={(event) => set(index, { value: event.currentTarget.value })}
            />
            <ActionIcon
              variant="subtle"
              color="red"
              aria-label={`Remove header ${index + 1}`}
              onClick={() => onChange({ headers: headers.filter((_, at) => at !== index) })}
            >
              <IconTrash size={16} />
            </ActionIcon>
          </Group>
        ))}
        <Group>
          <Button
            variant="default"
            size="compact-sm"
            leftSection={<IconPlus size={14} />}
            onClick={() =>
              onChange({ headers: [...headers, { name: "", kind: "text", value: "" }] })
            }
          >
            Add header
          </Button>
        </Group>
      </Stack>
    </Input.Wrapper>
  );
}

/** A record that the broker did not write is a failure, whatever the request's status. */
function useProduce(onProduced: () => void) {
  const trpc = useTRPC();
  const [rejected, setRejected] = useState<Error>();
  const mutation = useMutation(
    trpc.record.produce.mutationOptions({
      onMutate: () => setRejected(undefined),
      onSuccess: ({ results: [result] }) => {
        if (result?.error) return setRejected(new ApiFailure(result.error.message));
        const place = result?.offset ? `, offset ${int64(result.offset)}` : "";
        notifications.show({ message: `Produced to partition ${result?.partition}${place}.` });
        onProduced();
      },
    }),
  );
  return { ...mutation, error: mutation.error ?? rejected };
}
