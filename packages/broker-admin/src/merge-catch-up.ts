/** How far the groups of a cluster are behind, from what each of its brokers says. Ratios are computed from the sums, never averaged. */
import type { CatchUpAnswer } from "./catch-up.ts";

type Group = CatchUpAnswer["groups"][number];
type Direction = CatchUpAnswer["network"]["ingress"];
type Tier = Direction["tiers"][number];
type Cache = CatchUpAnswer["cache"];
type Answers = readonly [CatchUpAnswer, ...CatchUpAnswer[]];

/** The worse a mode, the later it stands. */
const BY_URGENCY = ["idle", "tail", "catch_up", "falling_behind"] as const;

export function mergeCatchUp(answers: Answers): CatchUpAnswer {
  const [first] = answers;
  return {
    ...first,
    cache: mergeCaches(answers.map(({ cache }) => cache)),
    network: {
      ingress: mergeDirections(answers.map(({ network }) => network.ingress)),
      egress: mergeDirections(answers.map(({ network }) => network.egress)),
    },
    bucket_calls: mergeCalls(answers.flatMap((answer) => answer.bucket_calls)),
    bucket_reads: mergeReads(answers.map((answer) => answer.bucket_reads)),
    groups: mergeGroups(answers.flatMap(({ groups }) => groups)),
    truncated: answers.some(({ truncated }) => truncated),
  };
}

function mergeCaches(caches: readonly Cache[]): Cache {
  const sum = (of: (cache: Cache) => string) => sumOf(caches.map(of));
  const hits = sum((cache) => cache.hits);
  const misses = sum((cache) => cache.misses);
  const fetched = sum((cache) => cache.fetched_bytes);
  const delivered = sum((cache) => cache.delivered_bytes);
  const windows = caches.map((cache) => cache.prefetch_window_bytes);
  return {
    size_bytes: sum((cache) => cache.size_bytes),
    used_bytes: sum((cache) => cache.used_bytes),
    hits,
    misses,
    hit_ratio: ratio(hits, `${BigInt(hits) + BigInt(misses)}`),
    fetched_bytes: fetched,
    delivered_bytes: delivered,
    fetched_per_delivered: ratio(fetched, delivered),
    evicted_unread_bytes: sum((cache) => cache.evicted_unread_bytes),
    readers: total(caches.map(({ readers }) => readers)),
    prefetch_window_bytes: {
      max: largest(windows.map(({ max }) => max)),
      median: largest(windows.map(({ median }) => median)),
    },
  };
}

/** Unlimited where a broker is. */
function mergeDirections(directions: readonly Direction[]): Direction {
  const baselines = directions.flatMap((each) => each.baseline_bytes_per_second ?? []);
  const tiers = new Map<string, Tier>();
  for (const tier of directions.flatMap((each) => each.tiers)) {
    const known = tiers.get(tier.tier);
    tiers.set(tier.tier, known ? addTiers(known, tier) : tier);
  }
  const isLimited = baselines.length === directions.length;
  return {
    baseline_bytes_per_second: isLimited ? sumOf(baselines) : null,
    tiers: [...tiers.values()],
  };
}

function addTiers(a: Tier, b: Tier): Tier {
  return {
    tier: a.tier,
    bytes: sumOf([a.bytes, b.bytes]),
    waited_seconds: a.waited_seconds + b.waited_seconds,
    waiting: a.waiting + b.waiting,
    waiting_mean: a.waiting_mean + b.waiting_mean,
  };
}

function mergeCalls(calls: CatchUpAnswer["bucket_calls"]): CatchUpAnswer["bucket_calls"] {
  const merged = new Map<string, CatchUpAnswer["bucket_calls"][number]>();
  for (const call of calls) {
    const key = `${call.operation} ${call.status}`;
    const known = merged.get(key);
    merged.set(key, known ? { ...known, calls: sumOf([known.calls, call.calls]) } : call);
  }
  return [...merged.values()];
}

function mergeReads(reads: readonly CatchUpAnswer["bucket_reads"][]) {
  const perSecond = total(reads.map((each) => each.per_second));
  const seconds = total(reads.map((each) => each.per_second * (each.seconds_mean ?? 0)));
  return {
    per_second: perSecond,
    failed_per_second: total(reads.map((each) => each.failed_per_second)),
    seconds_mean: perSecond > 0 ? seconds / perSecond : null,
  };
}

/** A group's partitions may be led by several brokers. */
function mergeGroups(groups: readonly Group[]): Group[] {
  const merged = new Map<string, Group>();
  for (const group of groups) {
    const known = merged.get(group.group);
    merged.set(group.group, known ? addGroups(known, group) : group);
  }
  return [...merged.values()];
}

function addGroups(a: Group, b: Group): Group {
  const urgency = (group: Group) => BY_URGENCY.indexOf(group.mode);
  const worst = urgency(b) > urgency(a) ? b : a;
  return {
    group: a.group,
    state: worst.state,
    mode: worst.mode,
    backlog_records: sumOf([a.backlog_records, b.backlog_records]),
    backlog_bytes: sumOf([a.backlog_bytes, b.backlog_bytes]),
    read_bytes_per_second: a.read_bytes_per_second + b.read_bytes_per_second,
    produce_bytes_per_second: a.produce_bytes_per_second + b.produce_bytes_per_second,
    drain_bytes_per_second: a.drain_bytes_per_second + b.drain_bytes_per_second,
    eta_seconds: latest(a, b, "eta_seconds"),
    eta_low_seconds: latest(a, b, "eta_low_seconds"),
    eta_high_seconds: latest(a, b, "eta_high_seconds"),
    progress: worst.progress,
    partitions: [...a.partitions, ...b.partitions],
  };
}

/** A group has caught up once it has at every broker. Unknown where it is at one that it is behind at. */
function latest(
  a: Group,
  b: Group,
  eta: "eta_seconds" | "eta_low_seconds" | "eta_high_seconds",
): number | null {
  const isBehind = ({ mode }: Group) => mode === "catch_up" || mode === "falling_behind";
  const times = [a, b].filter((group) => isBehind(group) || group[eta] !== null);
  if (times.length === 0 || times.some((group) => group[eta] === null)) return null;
  return Math.max(...times.map((group) => group[eta] ?? 0));
}

function sumOf(amounts: readonly string[]): string {
  return `${amounts.reduce((sum, amount) => sum + BigInt(amount), 0n)}`;
}

function largest(amounts: readonly string[]): string {
  const all = amounts.map(BigInt);
  return `${all.reduce((most, each) => (each > most ? each : most), all[0] ?? 0n)}`;
}

function total(amounts: readonly number[]): number {
  return amounts.reduce((sum, amount) => sum + amount, 0);
}

function ratio(part: string, whole: string): number | null {
  return whole === "0" ? null : Number(part) / Number(whole);
}
