"use client";

import { Button, Card, Flex, NativeSelect, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { COUNTS, draftErrors, type RecordDraft, type Start, searchOf } from "./record-query.ts";

const START_LABELS: { value: Start; label: string }[] = [
  { value: "newest", label: "Newest" },
  { value: "oldest", label: "Oldest" },
  { value: "offset", label: "Offset" },
  { value: "time", label: "Time" },
];

/** One line on a wide screen, two fields side by side on a phone. */
const NARROW = { flex: "1 1 100px" };
const WIDE = { flex: "2 1 140px" };
/** Its placeholder is longer than half of a phone. */
const WIDER = { flex: "2 1 180px" };

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
  const address = searchOf(applied);
  const submittedAddress = useRef(address);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another address changes the fields
  useEffect(() => {
    // Who typed on while the address changed to what they had submitted keeps what they typed.
    if (address !== submittedAddress.current) setDraft(applied);
    submittedAddress.current = address;
  }, [address]);
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
    if (Object.keys(errors).length > 0) return;
    submittedAddress.current = searchOf(draft);
    onApply(draft);
  }

  return (
    <Card padding="md" component="form" noValidate onSubmit={submit} aria-label="Filters">
      <Flex wrap="wrap" gap="sm">
        <NativeSelect label="Start" style={NARROW} data={START_LABELS} {...field("start")} />
        {draft.start === "offset" && (
          <TextInput
            label="Offset"
            style={WIDE}
            inputMode="numeric"
            autoComplete="off"
            {...field("offset")}
          />
        )}
        {draft.start === "time" && (
          <TextInput label="Time" style={WIDE} type="datetime-local" step={1} {...field("time")} />
        )}
        <NativeSelect
          label="Records"
          style={NARROW}
          data={COUNTS.map((value) => ({ value, label: Number(value).toLocaleString("en") }))}
          {...field("count")}
        />
        <NativeSelect
          label="Partition"
          style={NARROW}
          data={[{ value: "", label: "All" }, ...partitions]}
          {...field("partition")}
        />
        <TextInput
          label="Key"
          style={WIDE}
          placeholder="Exact key"
          autoComplete="off"
          spellCheck={false}
          {...field("key")}
        />
        <TextInput
          label="Header"
          style={WIDER}
          placeholder="name or name=value"
          autoComplete="off"
          spellCheck={false}
          {...field("header")}
        />
        <TextInput
          label="Text"
          style={WIDE}
          placeholder="In key or value"
          autoComplete="off"
          spellCheck={false}
          {...field("text")}
        />
        <Button
          type="submit"
          variant="default"
          mt={25}
          loading={busy}
          leftSection={<IconSearch size={16} />}
        >
          Search
        </Button>
      </Flex>
    </Card>
  );
}
