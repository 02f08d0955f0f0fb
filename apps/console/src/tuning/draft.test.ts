import type { Problem, Tuning, TuningSetting } from "@millrace/contract";
import {
  checkTuning,
  DomainError,
  desiredTuning,
  TUNING_KNOBS,
  tuningBounds,
} from "@millrace/domain";
import { describe, expect, it } from "vitest";
import {
  changesOf,
  checkDraft,
  type Draft,
  fieldErrorsOf,
  overrideOf,
  overrideValue,
  patchOf,
  revertOf,
} from "./draft.ts";
import { valueText } from "./knobs.ts";
import { devTuning } from "./tuning.fixture.ts";

const MIB = 1024 ** 2;
const tuning = devTuning();
const amount = (text: string, unit: string) => ({ kind: "amount", text, unit }) as const;

describe("a draft", () => {
  it("begins as what is, and that is no change", () => {
    for (const knob of TUNING_KNOBS) {
      const override = overrideOf(knob, tuning[knob]);
      expect(overrideValue(override, tuning[knob])).toBe(tuning[knob].value);
      expect(changesOf(tuning, { [knob]: override })).toEqual([]);
      expect(checkDraft(tuning, { [knob]: override })).toEqual({});
    }
  });

  it("knows what changes from what to what, and asks for the default by name", () => {
    const changed = devTuning({ wal_cache_bytes: { value: 96 * MIB, source: "tuning" } });
    const draft: Draft = {
      block_cache_bytes: amount("64", "MiB"),
      wal_cache_bytes: { kind: "default" },
      egress_baseline_bytes_per_second: amount("1", "Gbit/s"),
      ingress_baseline_bytes_per_second: { kind: "zero" },
    };
    const changes = changesOf(changed, draft);
    expect(changes.map(({ knob, from, to }) => [knob, from, to])).toEqual([
      ["block_cache_bytes", 128 * MIB, 64 * MIB],
      ["egress_baseline_bytes_per_second", 0, 125_000_000],
      ["wal_cache_bytes", 96 * MIB, 256 * MIB],
    ]);
    expect(patchOf(changes)).toEqual({
      block_cache_bytes: 64 * MIB,
      egress_baseline_bytes_per_second: 125_000_000,
      wal_cache_bytes: null,
    });
  });

  it("can switch off what 0 switches off", () => {
    const off = devTuning({ prefetch_max_bytes: { value: 0 } });
    expect(overrideOf("prefetch_max_bytes", off.prefetch_max_bytes)).toEqual({ kind: "zero" });
    const [change] = changesOf(tuning, { prefetch_max_bytes: { kind: "zero" } });
    expect(change).toMatchObject({ from: 32 * MIB, to: 0 });
    expect(valueText("prefetch_max_bytes", 0)).toBe("No prefetch");
    expect(valueText("block_cache_bytes", 0)).toBe("0 bytes");
  });

  it("is checked against the bounds, with bound and reason", () => {
    const errors = checkDraft(tuning, {
      block_cache_bytes: amount("4", "KiB"),
      prefetch_max_bytes: amount("2", "GiB"),
      upload_threshold_bytes: amount("", "MiB"),
      ingress_baseline_bytes_per_second: amount("12", "bytes/s"),
    });
    expect(errors.block_cache_bytes).toMatch(/^Enter 16 MiB or more\. Minimum 16 MiB/);
    expect(errors.prefetch_max_bytes).toMatch(/^Enter 256 MiB or less\./);
    expect(errors.upload_threshold_bytes).toBe("Enter a number.");
    expect(errors.ingress_baseline_bytes_per_second).toMatch(/^Enter 1 MiB\/s or more\./);
  });

  it("leaves knobs that move each other's bounds to the API", () => {
    const draft = { wal_cache_bytes: amount("40", "MiB") };
    expect(checkDraft(tuning, draft).wal_cache_bytes).toContain("“Upload threshold”");
    const both = { ...draft, upload_threshold_bytes: amount("20", "MiB") };
    expect(checkDraft(tuning, both)).toEqual({});
  });
});

describe("a refusal", () => {
  it("stands at the field that it points at, in words", () => {
    const problem = refusal({ block_cache_bytes: 600 * MIB });
    expect(fieldErrorsOf(problem)).toEqual({
      block_cache_bytes: expect.stringMatching(
        /^Block cache must be at most 512 MiB, not 600 MiB\. .*“Log cache” uses 256 MiB/,
      ),
    });
  });

  it("of something else is at no field", () => {
    expect(fieldErrorsOf(undefined)).toEqual({});
    const elsewhere = { pointer: "/cluster_id", code: "invalid", message: "is none" };
    expect(fieldErrorsOf({ errors: [elsewhere] } as unknown as Problem)).toEqual({});
  });
});

it("the fixture is what the domain says of the size", () => {
  const values = desiredTuning({ size: "dev" }, {});
  for (const knob of TUNING_KNOBS) {
    const { min, max, reason } = tuningBounds({ size: "dev" }, values)[knob];
    expect(tuning[knob]).toMatchObject({
      value: values[knob],
      min,
      max,
      reason,
    } satisfies Partial<TuningSetting>);
  }
});

/** The problem that the API answers for values which the domain refuses. */
function refusal(overrides: Partial<Record<keyof Tuning, number>>): Problem {
  try {
    checkTuning({ size: "dev" }, desiredTuning({ size: "dev" }, overrides), ["block_cache_bytes"]);
  } catch (error) {
    if (error instanceof DomainError) {
      return { code: error.code, errors: [...error.fields] } as unknown as Problem;
    }
    throw error;
  }
  throw new Error("it was not refused");
}

it("a revert swaps the values, and returns to the default where that is the earlier value", () => {
  const defaultBytes = tuning.block_cache_bytes.default;
  const changes = [
    { field: "block_cache_bytes", from: defaultBytes, to: 64 * MIB, to_default: false },
    { field: "wal_cache_bytes", from: 48 * MIB, to: 64 * MIB, to_default: false },
  ] as const;
  expect(revertOf([...changes], tuning)).toEqual([
    { knob: "block_cache_bytes", from: 64 * MIB, to: defaultBytes, toDefault: true },
    { knob: "wal_cache_bytes", from: 64 * MIB, to: 48 * MIB, toDefault: false },
  ]);
  expect(revertOf([...changes], undefined)[0]?.toDefault).toBe(false);
});
