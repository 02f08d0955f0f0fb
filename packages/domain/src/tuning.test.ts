import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DomainError } from "./error.ts";
import { CLUSTER_SIZE_NAMES, sizingOf } from "./size.ts";
import {
  checkTuning,
  desiredTuning,
  isBaseline,
  TUNING_KNOBS,
  type TuningKnob,
  type TuningValues,
  tuningBounds,
  tuningDefaults,
} from "./tuning.ts";

const MIB = 1024 ** 2;
const DEV = { size: "dev" } as const;
const size = fc.constantFrom(...CLUSTER_SIZE_NAMES);

function refusalOf(
  ...[cluster, values, changed]: Parameters<typeof checkTuning>
): DomainError | undefined {
  try {
    checkTuning(cluster, values, changed);
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
}

function dev(changes: Partial<TuningValues>): TuningValues {
  return { ...tuningDefaults(DEV), ...changes };
}

describe.each(CLUSTER_SIZE_NAMES)("size %s", (name) => {
  test("its defaults are within their own bounds", () => {
    expect(refusalOf({ size: name }, tuningDefaults({ size: name }), TUNING_KNOBS)).toBeUndefined();
  });

  test.each(TUNING_KNOBS)("%s: both bounds are allowed, one beyond each is not", (knob) => {
    const defaults = tuningDefaults({ size: name });
    const { min, max } = tuningBounds({ size: name }, defaults)[knob];
    const codeAt = (value: number) =>
      refusalOf({ size: name }, { ...defaults, [knob]: value }, [knob])?.fields[0]?.code;
    expect(codeAt(min)).toBeUndefined();
    expect(codeAt(max)).toBeUndefined();
    expect(codeAt(min - 1)).toBe("too_small");
    expect(codeAt(max + 1)).toBe("too_large");
    expect(codeAt(min + 0.5)).toBe("not_whole");
    expect(codeAt(-1)).toBe("too_small");
    expect(codeAt(1e300)).toBe("too_large");
  });
});

test("whatever passes keeps the caches within the size's memory and the threshold reachable", () => {
  const amount = fc.integer({ min: 0, max: 20 * 1024 ** 3 });
  fc.assert(
    fc.property(size, amount, amount, amount, (name, blockCache, walCache, threshold) => {
      const values = {
        ...tuningDefaults({ size: name }),
        block_cache_bytes: blockCache,
        wal_cache_bytes: walCache,
        upload_threshold_bytes: threshold,
      };
      if (refusalOf({ size: name }, values, TUNING_KNOBS) !== undefined) return;
      const { memoryBytes, walBytes } = sizingOf(name);
      expect(blockCache + walCache).toBeLessThanOrEqual(memoryBytes * 0.75);
      expect(threshold).toBeLessThanOrEqual(Math.min(walCache, walBytes / 2));
    }),
    { numRuns: 1_000 },
  );
});

test("one knob that moves within the bounds that are shown leaves all others within theirs", () => {
  const step = fc.tuple(
    fc.constantFrom(...TUNING_KNOBS),
    fc.double({ min: 0, max: 1, noNaN: true }),
  );
  fc.assert(
    fc.property(size, fc.array(step, { maxLength: 12 }), (name, steps) => {
      let values = tuningDefaults({ size: name });
      for (const [knob, share] of steps) {
        const { min, max } = tuningBounds({ size: name }, values)[knob];
        values = { ...values, [knob]: Math.round(min + (max - min) * share) };
        expect(refusalOf({ size: name }, values, TUNING_KNOBS)).toBeUndefined();
      }
    }),
  );
});

test("a baseline of 0 is no bound", () => {
  for (const knob of TUNING_KNOBS.filter(isBaseline)) {
    expect(refusalOf(DEV, dev({ [knob]: 0 }), [knob])).toBeUndefined();
    expect(refusalOf(DEV, dev({ [knob]: 1 }), [knob])?.fields[0]?.code).toBe("too_small");
  }
});

test.each<[string, Partial<TuningValues>, TuningKnob, string[]]>([
  ["too little cache", { block_cache_bytes: 4_096 }, "block_cache_bytes", ["4096", "16 MiB"]],
  [
    "caches that outgrow the memory",
    { block_cache_bytes: 600 * MIB },
    "block_cache_bytes",
    ["75\u00a0%", "memory of size Development (1 GiB)", "wal_cache_bytes uses 256 MiB"],
  ],
  [
    "a log cache below the threshold",
    { wal_cache_bytes: 32 * MIB },
    "wal_cache_bytes",
    ["64 MiB", "upload_threshold_bytes"],
  ],
  [
    "a threshold above half of the log",
    { upload_threshold_bytes: 200 * MIB },
    "upload_threshold_bytes",
    ["128 MiB", "half of the write-ahead log"],
  ],
])("%s is refused with bound and reason, at its pointer", (_, changes, knob, words) => {
  const refusal = refusalOf(DEV, dev(changes), [knob]);
  expect(refusal).toMatchObject({ code: "tuning_refused", status: 422, retryable: false });
  expect(refusal?.fields).toMatchObject([{ pointer: `/${knob}` }]);
  for (const word of words) expect(refusal?.fields[0]?.message).toContain(word);
  expect(refusal?.message).toContain(knob);
});

test("a fraction within the bounds is told to be whole, and nothing of the bounds", () => {
  const refusal = refusalOf(DEV, dev({ block_cache_bytes: 33_554_432.5 }), ["block_cache_bytes"]);
  expect(refusal?.message).toBe("block_cache_bytes must be a whole number, not 33554432.5.");
  expect(refusal?.remedy).toBeUndefined();
});

test("two knobs that only fit together may change together", () => {
  const values = dev({ wal_cache_bytes: 40 * MIB, upload_threshold_bytes: 20 * MIB });
  expect(refusalOf(DEV, values, ["wal_cache_bytes", "upload_threshold_bytes"])).toBeUndefined();
});

test("an override wins over the default, and null is the default", () => {
  const overrides = { block_cache_bytes: 64 * MIB, wal_cache_bytes: null };
  expect(desiredTuning({ size: "small" }, overrides)).toEqual({
    ...tuningDefaults({ size: "small" }),
    block_cache_bytes: 64 * MIB,
  });
});

test("no size's default is above a quarter of its log cache, where the broker ignores it", () => {
  for (const name of CLUSTER_SIZE_NAMES) {
    const { upload_threshold_bytes, wal_cache_bytes } = tuningDefaults({ size: name });
    expect(upload_threshold_bytes).toBeLessThanOrEqual(wal_cache_bytes / 4);
  }
});

test("a cluster that grew keeps its log: default, bound and reason follow the log, not the size", () => {
  const grown = { size: "small", localWalBytes: 256 * MIB } as const;
  const defaults = tuningDefaults(grown);
  expect(defaults.upload_threshold_bytes).toBe(128 * MIB);
  expect(refusalOf(grown, defaults, TUNING_KNOBS)).toBeUndefined();
  const { max, reason } = tuningBounds(grown, defaults).upload_threshold_bytes;
  expect(max).toBe(128 * MIB);
  expect(reason).toContain("half of the write-ahead log of 256 MiB");
});
