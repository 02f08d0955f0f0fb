"use client";

import { Badge, Box, Button, Code, Flex, Group, Stack, Text, Tooltip } from "@mantine/core";
import type { TuningSetting } from "@millrace/contract";
import type { TuningKnob } from "@millrace/domain";
import { IconBolt, IconClock, IconPencil, IconTerminal2 } from "@tabler/icons-react";
import { useState } from "react";
import { everyByte } from "../format/amount.ts";
import { AmountField } from "./amount-field.tsx";
import { BoundsBar } from "./bounds-bar.tsx";
import { overrideOf, overrideValue } from "./draft.ts";
import { inWords, KNOB_WORDS, valueText } from "./knobs.ts";
import type { TuningEdit } from "./tuning-edit.ts";

interface KnobRowProps {
  knob: TuningKnob;
  setting: TuningSetting;
  /** Absent where the knob may only be looked at. */
  edit: TuningEdit | undefined;
  first: boolean;
}

/** One knob: what it does, what it is, between which bounds and why, and the way to another value. */
export function KnobRow({ knob, setting, edit, first }: KnobRowProps) {
  const { title, text } = KNOB_WORDS[knob];
  const override = edit?.draft[knob];
  // The field goes away below the keyboard's focus: it goes on at the button that brought it.
  const [left, setLeft] = useState(false);
  const newValue = override && overrideValue(override, setting);
  return (
    <Box
      px="lg"
      py="md"
      data-knob={knob}
      style={first ? undefined : { borderTop: "1px solid var(--mantine-color-default-border)" }}
    >
      <Flex
        direction={{ base: "column", sm: "row" }}
        justify="space-between"
        gap={{ base: "md", sm: "xl" }}
      >
        <Stack gap={6} flex={1} miw={0} maw={620}>
          <Group gap="xs">
            <Text component="h3" fw={600} m={0}>
              {title}
            </Text>
            <StateBadge setting={setting} />
          </Group>
          <Text fz="sm" className="quiet">
            {text}
          </Text>
          <BoundsBar knob={knob} setting={setting} newValue={newValue} />
          <Text fz="xs" className="quiet" data-reason={knob}>
            {inWords(setting.reason, knob)}
          </Text>
          <Text fz="xs" className="quiet">
            Broker property: <Code fz="xs">{setting.property}</Code>
          </Text>
        </Stack>
        <Box w={{ base: "100%", sm: 300 }} style={{ flexShrink: 0 }}>
          {edit && override ? (
            <AmountField
              knob={knob}
              setting={setting}
              override={override}
              error={edit.errors[knob]}
              onChange={(next) => {
                setLeft(next === undefined);
                edit.set(knob, next);
              }}
              onEnter={edit.preview}
            />
          ) : (
            <Reading
              knob={knob}
              setting={setting}
              onEdit={edit && (() => edit.set(knob, overrideOf(knob, setting)))}
              focused={left}
            />
          )}
        </Box>
      </Flex>
    </Box>
  );
}

function Reading(props: {
  knob: TuningKnob;
  setting: TuningSetting;
  onEdit: (() => void) | undefined;
  focused: boolean;
}) {
  const { knob, setting, onEdit, focused } = props;
  return (
    <Flex direction={{ base: "row", sm: "column" }} justify="space-between" gap="sm" wrap="wrap">
      <Box ta={{ base: "left", sm: "right" }}>
        <Text fz={26} lh={1.2} fw={650} className="number" data-value={knob}>
          {valueText(knob, setting.value)}
        </Text>
        {setting.value > 0 && (
          <Text fz="xs" className="quiet number">
            {everyByte(setting.unit, setting.value)}
          </Text>
        )}
        <Text fz="xs" className="quiet">
          {setting.value === setting.default
            ? "Default"
            : `Default: ${valueText(knob, setting.default)}`}
        </Text>
      </Box>
      {onEdit && (
        <Group justify="flex-end">
          <Button
            variant="default"
            size="xs"
            leftSection={<IconPencil size={14} />}
            onClick={onEdit}
            autoFocus={focused}
            aria-label={`Change ${KNOB_WORDS[knob].title}`}
          >
            Change
          </Button>
        </Group>
      )}
    </Flex>
  );
}

/** Whether the running broker has the value, as far as it answers, and whether it was set at the broker itself. */
function StateBadge({ setting: { applied, source } }: { setting: TuningSetting }) {
  return (
    <>
      {applied ? (
        <Badge
          variant="default"
          tt="none"
          fw={500}
          leftSection={<IconBolt size={12} />}
          data-applied
        >
          Live
        </Badge>
      ) : (
        <Badge
          variant="outline"
          color="orange"
          c="inherit"
          tt="none"
          fw={500}
          leftSection={<IconClock size={12} />}
        >
          {source === "tuning" ? "Not applied yet" : "Unknown"}
        </Badge>
      )}
      {source === "broker" && (
        <Tooltip
          label="Set with Kafka tools, not here. A change made here overrides it."
          multiline
          w={240}
        >
          <Badge
            variant="default"
            tt="none"
            fw={500}
            leftSection={<IconTerminal2 size={12} />}
            tabIndex={0}
          >
            Set on the broker
          </Badge>
        </Tooltip>
      )}
    </>
  );
}
