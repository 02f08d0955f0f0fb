/** What somebody is about to change, before it is asked for. Pure, so that it is tested alone. */
import type { Problem, Tuning, TuningChange, TuningSetting } from "@millrace/contract";
import { TUNING_KNOBS, type TuningKnob, type TuningUnit } from "@millrace/domain";
import { amountOf, unitFor, unitNamed } from "../format/amount.ts";
import { COUPLED, inWords, KNOB_WORDS, ZERO_WORDS } from "./knobs.ts";

/** What one knob shall be. Text stays as typed, so that a half-written number is not lost. */
export type Override =
  | { kind: "amount"; text: string; unit: string }
  /** Switched off: no bound, no prefetch. */
  | { kind: "zero" }
  | { kind: "default" };

export type Draft = Partial<Record<TuningKnob, Override>>;
export type FieldErrors = Partial<Record<TuningKnob, string>>;

export interface Change {
  knob: TuningKnob;
  from: number;
  to: number;
  toDefault: boolean;
}

/** The knob as it is, ready to be edited. */
export function overrideOf(knob: TuningKnob, { value, unit }: TuningSetting): Override {
  if (value === 0 && ZERO_WORDS[knob]) return { kind: "zero" };
  return amountOverride(value, unit);
}

/** An amount as it is written. */
export function amountOverride(amount: number, unit: TuningUnit): Override & { kind: "amount" } {
  const written = unitFor(unit, amount);
  return { kind: "amount", text: String(amount / written.bytes), unit: written.label };
}

/** The value of an override; undefined if it is not a number. */
export function overrideValue(override: Override, setting: TuningSetting): number | undefined {
  if (override.kind === "default") return setting.default;
  if (override.kind === "zero") return 0;
  return amountOf(override.text, unitNamed(setting.unit, override.unit));
}

/** What would be another value, in the page's order. */
export function changesOf(tuning: Tuning, draft: Draft): Change[] {
  return TUNING_KNOBS.flatMap((knob) => {
    const override = draft[knob];
    const to = override && overrideValue(override, tuning[knob]);
    if (to === undefined || to === tuning[knob].value) return [];
    return [{ knob, from: tuning[knob].value, to, toDefault: override?.kind === "default" }];
  });
}

/** What a revert of these changes would do; `tuning` says which values are the defaults. */
export function revertOf(changes: TuningChange["changes"], tuning: Tuning | undefined): Change[] {
  return changes.map(({ field, from, to }) => ({
    knob: field,
    from: to,
    to: from,
    toDefault: tuning?.[field].default === from,
  }));
}

/** The changes as the API takes them: `null` is the default again. */
export function patchOf(changes: readonly Change[]): Partial<Record<TuningKnob, number | null>> {
  return Object.fromEntries(
    changes.map(({ knob, to, toDefault }) => [knob, toDefault ? null : to]),
  );
}

/** What is wrong before anybody is asked. */
export function checkDraft(tuning: Tuning, draft: Draft): FieldErrors {
  const changed = new Set(changesOf(tuning, draft).map(({ knob }) => knob));
  const errors: FieldErrors = {};
  for (const knob of TUNING_KNOBS) {
    const override = draft[knob];
    if (override?.kind !== "amount") continue;
    // Its bounds are those beside the other knob's present value: the API validates both together.
    const movesWith = COUPLED[knob]?.some((other) => changed.has(other)) ?? false;
    const error = errorOf(tuning[knob], overrideValue(override, tuning[knob]), movesWith);
    if (error !== undefined) errors[knob] = inWords(error, knob);
  }
  return errors;
}

function errorOf(
  setting: TuningSetting,
  value: number | undefined,
  movesWith: boolean,
): string | undefined {
  if (value === undefined) return "Enter a number.";
  if (value === setting.value || movesWith) return undefined;
  const { min, max, reason } = setting;
  if (value < min) return `Enter ${min} or more. ${reason}`;
  if (value > max) return `Enter ${max} or less. ${reason}`;
  return undefined;
}

/** The API's refusal at the fields that it points at. */
export function fieldErrorsOf(problem: Problem | undefined): FieldErrors {
  const errors: FieldErrors = {};
  for (const { pointer, message } of problem?.errors ?? []) {
    const knob = TUNING_KNOBS.find((name) => pointer === `/${name}`);
    if (knob === undefined) continue;
    errors[knob] ??= `${KNOB_WORDS[knob].title} ${inWords(message, knob)}`;
  }
  return errors;
}
