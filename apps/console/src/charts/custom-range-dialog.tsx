"use client";

import { Button, Modal, Stack, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type FormEvent, useState } from "react";
import { FormActions } from "../shell/form-actions.tsx";
import type { Range } from "./chart-range.ts";
import { draftOf, type RangeDraft, type RangeErrors, rangeOf } from "./custom-range.ts";

interface CustomRangeProps {
  /** What the charts show now, to begin with. */
  shown: Range;
  onApply: (range: Range) => void;
}

/** Asks for the range that the charts shall show. */
export function CustomRangeButton({ shown, onApply }: CustomRangeProps) {
  const [opened, { open, close }] = useDisclosure(false);
  return (
    <>
      <Button variant="default" size="xs" onClick={open}>
        Custom range
      </Button>
      <Modal opened={opened} onClose={close} title="Custom time range">
        <CustomRangeForm
          shown={shown}
          onCancel={close}
          onApply={(range) => {
            close();
            onApply(range);
          }}
        />
      </Modal>
    </>
  );
}

export function CustomRangeForm(props: CustomRangeProps & { onCancel: () => void }) {
  const { shown, onApply, onCancel } = props;
  // The interval under way ends later than now.
  const begin = () => draftOf({ from: shown.from, to: Math.min(shown.to, Date.now()) });
  const [draft, setDraft] = useState<RangeDraft>(begin);
  const [errors, setErrors] = useState<RangeErrors>({});

  function submit(event: FormEvent) {
    event.preventDefault();
    const result = rangeOf(draft, Date.now());
    if ("range" in result) onApply(result.range);
    else setErrors(result.errors);
  }

  const field = (name: keyof RangeDraft) => ({
    type: "datetime-local",
    step: 1,
    value: draft[name],
    error: errors[name],
    onChange: ({ currentTarget }: { currentTarget: { value: string } }) => {
      setDraft({ ...draft, [name]: currentTarget.value });
      setErrors({});
    },
  });
  return (
    <form noValidate onSubmit={submit}>
      <Stack>
        <TextInput label="From" data-autofocus {...field("from")} />
        <TextInput label="To" description="In your time zone." {...field("to")} />
        <FormActions submit="Apply" busy={false} error={null} onCancel={onCancel} />
      </Stack>
    </form>
  );
}
