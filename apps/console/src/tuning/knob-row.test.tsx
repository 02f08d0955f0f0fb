import { MantineProvider } from "@mantine/core";
import type { TuningChange } from "@millrace/contract";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test, vi } from "vitest";
import { place } from "./bounds-bar.tsx";
import type { Draft, FieldErrors } from "./draft.ts";
import { KnobRow } from "./knob-row.tsx";
import { devTuning } from "./tuning.fixture.ts";
import type { TuningEdit } from "./tuning-edit.ts";
import { HistoryTable } from "./tuning-history.tsx";
import { StateNote } from "./tuning-page.tsx";

const MIB = 1024 ** 2;

function html(node: React.ReactNode): string {
  return renderToStaticMarkup(<MantineProvider>{node}</MantineProvider>);
}

function editing(draft: Draft, errors: FieldErrors = {}): TuningEdit {
  return {
    draft,
    errors,
    changes: [],
    refusal: null,
    confirming: false,
    busy: false,
    ready: false,
    set: vi.fn(),
    discard: vi.fn(),
    preview: vi.fn(),
    reconsider: vi.fn(),
    apply: vi.fn(),
  };
}

function row(edit: TuningEdit | undefined, tuning = devTuning()): string {
  return html(
    <KnobRow knob="block_cache_bytes" setting={tuning.block_cache_bytes} edit={edit} first />,
  );
}

test("a knob shows its value, each byte of it, default, bounds and their reason", () => {
  const text = row(
    editing({}),
    devTuning({ block_cache_bytes: { value: 64 * MIB, source: "tuning" } }),
  );
  for (const part of [
    "64 MiB",
    "67,108,864 bytes",
    "Default: 128 MiB",
    "min 16 MiB",
    "max 512 MiB",
    "Minimum 16 MiB",
    "s3.block.cache.size",
    "Live",
    'aria-label="Change Block cache"',
  ]) {
    expect(text).toContain(part);
  }
});

test("the bar marks the value without a thumb that cannot be dragged", () => {
  const mark = /<div[^>]*data-mark="(\d+)"[^>]*>|<div[^>]*style="([^"]*)"[^>]*data-mark/.exec(
    row(editing({})),
  );
  expect(mark?.[1]).toBe(String(128 * MIB));
  expect(mark?.[0]).not.toContain("border-radius");
});

test("who may not change it gets no way to", () => {
  const text = row(undefined);
  expect(text).toContain("128 MiB");
  expect(text).not.toContain("<button");
  expect(text).not.toContain("<input");
});

test("a knob that waits for the broker, or was set there, says so in words", () => {
  const asked = devTuning({ block_cache_bytes: { applied: false, source: "tuning" } });
  expect(row(undefined, asked)).toContain("Not applied yet");
  const silent = row(undefined, devTuning({ block_cache_bytes: { applied: false } }));
  expect(silent).toContain("Unknown");
  expect(silent).not.toContain("Not applied yet");
  expect(row(undefined, devTuning({ block_cache_bytes: { source: "broker" } }))).toContain(
    "Set on the broker",
  );
});

test("a refusal stands at its field, tied to it for those who do not see it", () => {
  const override = { kind: "amount", text: "600", unit: "MiB" } as const;
  const text = row(
    editing(
      { block_cache_bytes: override },
      { block_cache_bytes: "Block cache must be at most 512 MiB, not 600 MiB. Minimum 16 MiB." },
    ),
  );
  const described = /<input[^>]*aria-describedby="([^"]+)"/.exec(text)?.[1];
  expect(text).toMatch(/<input[^>]*aria-invalid="true"/);
  expect(described).toBeDefined();
  expect(text).toMatch(
    new RegExp(`id="${described}"[^>]*>Block cache must be at most 512 MiB, not 600 MiB\\.<`),
  );
  expect(text).toMatch(/quiet[^>]*>Minimum 16 MiB\.</);
});

test("a broker that has not taken the values is named, with its own words where it refused", () => {
  expect(html(<StateNote tuning={devTuning()} />)).not.toContain("Saved");
  const metadata = { etag: '"1-00000000"', version: 1, updated_at: "2026-11-21T12:00:00Z" };
  const silent = html(<StateNote tuning={devTuning({}, { applied: false, metadata })} />);
  expect(silent).toContain("Saved, not applied yet");
  expect(silent).toContain("when it is back");
  expect(html(<StateNote tuning={devTuning({}, { applied: false })} />)).toContain(
    "Current values unavailable",
  );
  const paused = html(<StateNote tuning={devTuning({}, { applied: false, metadata })} paused />);
  expect(paused).toContain("The cluster is paused");
  expect(paused).not.toContain("not answer");
  const refused = html(
    <StateNote tuning={devTuning({}, { applied: false, problem: "too much for this machine" })} />,
  );
  expect(refused).toContain("too much for this machine");
});

test("a value has its place between the bounds, whatever they are", () => {
  const setting = devTuning().block_cache_bytes;
  expect(place(setting.min, setting)).toBe(0);
  expect(place(setting.max, setting)).toBe(1);
  expect(place(2 * setting.max, setting)).toBe(1);
  expect(place(Math.sqrt(setting.min * setting.max), setting)).toBeCloseTo(0.5);
  const prefetch = { ...setting, min: 0, max: 256 * MIB };
  expect(place(0, prefetch)).toBe(0);
  expect(place(32 * MIB, prefetch)).toBeCloseTo(0.75);
  expect(place(5, { ...setting, min: 7, max: 7 })).toBe(0);
  const baseline = devTuning().egress_baseline_bytes_per_second;
  expect(place(0, baseline)).toBe(1);
});

test("the history says who changed what from what to what, and what became of it", () => {
  const change: TuningChange = {
    id: "tch_1",
    version: 3,
    created_at: new Date().toISOString(),
    principal: { kind: "api_key", id: "key_1", name: "deploy pipeline" },
    changes: [
      { field: "block_cache_bytes", from: 128 * MIB, to: 64 * MIB, to_default: false },
      { field: "egress_baseline_bytes_per_second", from: 125_000_000, to: 0, to_default: true },
    ],
    reverts: { id: "tch_0", version: 2 },
    result: "refused",
    problem: "the machine has less",
  };
  const text = html(<HistoryTable changes={[change]} />);
  for (const part of [
    "deploy pipeline",
    'aria-label="API key"',
    "Block cache",
    "128 MiB",
    "64 MiB",
    "1 Gbit/s",
    "Unlimited",
    "(the default)",
    "Rejected",
    "Reverts change #2",
    "the machine has less",
  ]) {
    expect(text).toContain(part);
  }
});

test("a change that keeps the value says that it made it explicit, and its revert that it is the default again", () => {
  const field = "egress_baseline_bytes_per_second" as const;
  const change = (version: number, to_default: boolean): TuningChange => ({
    ...{ id: `tch_${version}`, version, created_at: new Date().toISOString() },
    principal: { kind: "user", id: "usr_1", name: "Ada" },
    changes: [{ field, from: 0, to: 0, to_default }],
    ...{ reverts: null, result: "applied", problem: null },
  });
  const text = html(<HistoryTable changes={[change(2, true), change(1, false)]} />);
  const [, second, first] = text.split("data-history=");
  expect(second).toContain("(the default again)");
  expect(first).toContain("(same value, now explicit)");
});
