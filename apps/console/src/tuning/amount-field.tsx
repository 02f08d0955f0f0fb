"use client";

import { Button, Checkbox, Group, Input, NativeSelect, Stack, Text } from "@mantine/core";
import type { TuningSetting } from "@millrace/contract";
import type { TuningKnob } from "@millrace/domain";
import { useId } from "react";
import { everyByte, unitNamed, unitsOf } from "../format/amount.ts";
import { amountOverride, type Override, overrideValue } from "./draft.ts";
import { KNOB_WORDS, valueText, ZERO_WORDS } from "./knobs.ts";

interface AmountFieldProps {
  knob: TuningKnob;
  setting: TuningSetting;
  override: Override;
  error: string | undefined;
  onChange: (override: Override | undefined) => void;
  /** The enter key: nothing more is to be written. */
  onEnter: () => void;
}

/** A knob's new value in a unit of choice, its default, or, where there is such a thing, none. */
export function AmountField({
  knob,
  setting,
  override,
  error,
  onChange,
  onEnter,
}: AmountFieldProps) {
  const { title } = KNOB_WORDS[knob];
  const field = useId();
  const value = overrideValue(override, setting);
  // What is wrong, then why.
  const [wrong, ...reason] = error?.split(/(?<=\.) /) ?? [];
  const shown = amountShown(override, setting);
  const write = (text: string) => onChange({ kind: "amount", text, unit: shown.unit });
  const convert = (label: string) => {
    const amount = value === undefined || value === 0 ? shown.text : inUnit(value, label);
    onChange({ kind: "amount", text: amount, unit: label });
  };
  const inUnit = (bytes: number, label: string) =>
    String(Number((bytes / unitNamed(setting.unit, label).bytes).toFixed(6)));
  return (
    <Stack gap="xs">
      <Input.Wrapper
        label={title}
        labelElement="div"
        error={wrong}
        id={field}
        errorProps={{ id: `${field}-error` }}
      >
        <Group gap="xs" wrap="nowrap">
          <Input
            flex={1}
            aria-label={`${title}, new value`}
            aria-describedby={error === undefined ? undefined : `${field}-error`}
            inputMode="decimal"
            autoComplete="off"
            autoFocus
            value={shown.text}
            disabled={override.kind === "zero"}
            error={error !== undefined}
            onChange={(event) => write(event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Enter" && onEnter()}
          />
          <NativeSelect
            aria-label={`${title}, unit`}
            w={112}
            value={shown.unit}
            disabled={override.kind === "zero"}
            data={unitsOf(setting.unit).map(({ label }) => label)}
            onChange={(event) => convert(event.currentTarget.value)}
          />
        </Group>
      </Input.Wrapper>
      {reason.length > 0 && (
        <Text fz="xs" className="quiet">
          {reason.join(" ")}
        </Text>
      )}
      {ZERO_WORDS[knob] && (
        <Checkbox
          label={ZERO_WORDS[knob]}
          checked={override.kind === "zero"}
          onChange={(event) =>
            onChange(event.currentTarget.checked ? { kind: "zero" } : somewhere(setting))
          }
        />
      )}
      {value !== undefined && value > 0 && error === undefined && (
        <Text fz="xs" className="quiet number">
          {everyByte(setting.unit, value)}
        </Text>
      )}
      <Group gap="xs">
        <Button
          variant="default"
          size="xs"
          disabled={override.kind === "default" || value === setting.default}
          onClick={() => onChange({ kind: "default" })}
        >
          Default: {valueText(knob, setting.default)}
        </Button>
        <Button
          variant="subtle"
          size="xs"
          onClick={() => onChange(undefined)}
          aria-label={`Cancel: ${title}`}
        >
          Cancel
        </Button>
      </Group>
    </Stack>
  );
}

/** What the field shows for an override that is not a typed amount. */
function amountShown(override: Override, setting: TuningSetting): { text: string; unit: string } {
  if (override.kind === "amount") return override;
  if (override.kind === "zero" || setting.default === 0) {
    return { text: "", unit: somewhere(setting).unit };
  }
  return amountOverride(setting.default, setting.unit);
}

/** An amount to begin with where there was none. */
function somewhere(setting: TuningSetting) {
  return amountOverride(setting.default || setting.min, setting.unit);
}
