"use client";

import { Button, Card, Group, NativeSelect, SimpleGrid, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { type FormEvent, useState } from "react";
import { COUNTS, draftErrors, type RecordDraft, type Start } from "./record-query.ts";

const START_LABELS: { value: Start; label: string }[] = [
  { value: "newest", label: "Newest" },
  { value: "oldest", label: "Oldest" },
  { value: "offset", label: "Offset" },
  { value: "time", label: "Time" },
];

interface RecordFiltersProps {
  /** What is shown now. */
  applied: RecordDraft;
  partitions: readonly string[];
  busy: boolean;
  onApply: (draft: RecordDraft) => void;
}

/** Where to start and what must match; applied when it is submitted. */
export function RecordFilters({ applied, partitions, busy, onApply }: RecordFiltersProps) {
  const [draft, setDraft] = useState(applied);
  const [submitted, setSubmitted] = useState(false);
  const errors = draftErrors(draft);
  const shown = submitted ? errors : {};
  const field = (name: keyof RecordDraft) => ({
    value: draft[name],
    error: shown[name],
    onChange: (event: { currentTarget: { value: string } }) =>
      setDraft({ ...draft, [name]: event.currentTarget.value }),
  });

  function submit(event: FormEvent) {
    event.preventDefault();
    setSubmitted(true);
    if (Object.keys(errors).length === 0) onApply(draft);
  }

  return (
    <Card padding="md" component="form" noValidate onSubmit={submit} aria-label="Filters">
      <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="sm">
        <NativeSelect label="Start" data={START_LABELS} {...field("start")} />
        {draft.start === "offset" && (
          <TextInput label="Offset" inputMode="numeric" autoComplete="off" {...field("offset")} />
        )}
        {draft.start === "time" && (
          <TextInput label="Time" type="datetime-local" step={1} {...field("time")} />
        )}
        <NativeSelect
          label="Records"
          data={COUNTS.map((value) => ({ value, label: Number(value).toLocaleString("en") }))}
          {...field("count")}
        />
        <NativeSelect
          label="Partition"
          data={[{ value: "", label: "All" }, ...partitions]}
          {...field("partition")}
        />
        <TextInput
          label="Key"
          placeholder="Exact key"
          autoComplete="off"
          spellCheck={false}
          {...field("key")}
        />
        <TextInput
          label="Header"
          placeholder="name or name=value"
          autoComplete="off"
          spellCheck={false}
          {...field("header")}
        />
        <TextInput
          label="Text"
          placeholder="In key or value"
          autoComplete="off"
          spellCheck={false}
          {...field("text")}
        />
        <Group align="flex-end">
          <Button
            type="submit"
            variant="default"
            loading={busy}
            leftSection={<IconSearch size={16} />}
          >
            Search
          </Button>
        </Group>
      </SimpleGrid>
    </Card>
  );
}
