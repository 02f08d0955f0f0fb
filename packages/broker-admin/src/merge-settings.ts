import type { BrokerSetting, BrokerSettings } from "./broker-setting.ts";

/**
 * What several brokers have in common: a value only where all have the same one, and the bounds that all of them take. A
 * setting that a broker does not know is none of the cluster's.
 */
export function mergeSettings(all: readonly [BrokerSettings, ...BrokerSettings[]]): BrokerSettings {
  const [first] = all;
  const merged = new Map<string, BrokerSetting>();
  for (const key of first.keys()) {
    const settings = all.flatMap((each) => each.get(key) ?? []);
    const [one] = settings;
    if (one === undefined || settings.length < all.length) continue;
    merged.set(key, settings.reduce(common, one));
  }
  return merged;
}

function common(a: BrokerSetting, b: BrokerSetting): BrokerSetting {
  const min = tightest(Math.max, a.min, b.min);
  const max = tightest(Math.min, a.max, b.max);
  return {
    value: a.value === b.value ? a.value : undefined,
    dynamic: a.dynamic && b.dynamic,
    min,
    max,
    // Of the broker whose bounds these are.
    reason: min === a.min && max === a.max ? a.reason : b.reason,
  };
}

function tightest(
  of: (a: number, b: number) => number,
  a: number | undefined,
  b: number | undefined,
): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : of(a, b);
}
