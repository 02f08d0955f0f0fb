"use client";

import { Box, Group, Stack, Text } from "@mantine/core";
import type { Tuning } from "@millrace/contract";
import { IconArrowRight } from "@tabler/icons-react";
import { ReviewDialog } from "../shell/review-dialog.tsx";
import { reviewText } from "./apply-words.ts";
import type { Change } from "./draft.ts";
import { KNOB_WORDS, valueText } from "./knobs.ts";
import type { TuningEdit } from "./tuning-edit.ts";

/** What changes from what to what, once the API has validated it. */
export function ConfirmChange(props: {
  edit: TuningEdit;
  tuning: Tuning | undefined;
  paused: boolean;
}) {
  const { edit, tuning, paused } = props;
  return (
    <ReviewDialog
      opened={edit.confirming}
      title="Review tuning change"
      size="lg"
      confirm="Apply"
      cancel="Back"
      busy={edit.busy}
      onConfirm={edit.apply}
      onClose={edit.reconsider}
    >
      <Stack gap="xs">
        {edit.changes.map((change) => (
          <ChangeLine key={change.knob} change={change} />
        ))}
      </Stack>
      <Text fz="sm" className="quiet">
        {reviewText({ applied: tuning?.applied, paused })}
      </Text>
    </ReviewDialog>
  );
}

/** `Block cache  128 MiB → 64 MiB`. */
export function ChangeLine({ change }: { change: Change }) {
  const { knob, from, to } = change;
  const note = noteOf(change);
  return (
    <Group gap={6} data-change={knob}>
      <Text fz="sm" fw={600} miw={130}>
        {KNOB_WORDS[knob].title}
      </Text>
      <Text fz="sm" className="quiet number">
        {valueText(knob, from)}
      </Text>
      <Box c="dimmed" lh={0} role="img" aria-label="to">
        <IconArrowRight size={14} aria-hidden="true" />
      </Box>
      <Text fz="sm" fw={600} className="number">
        {valueText(knob, to)}
      </Text>
      {note && (
        <Text fz="xs" className="quiet">
          {note}
        </Text>
      )}
    </Group>
  );
}

/** What the values alone do not say: a value that stays as it is was made explicit, or is the default again. */
function noteOf({ from, to, toDefault }: Change): string | undefined {
  if (from !== to) return toDefault ? "(the default)" : undefined;
  return toDefault ? "(the default again)" : "(same value, now explicit)";
}
