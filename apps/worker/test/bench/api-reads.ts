/** Reads of the REST API at a steady rate, however long each takes, so that a slow answer delays no other request. */
import { setTimeout as sleep } from "node:timers/promises";
import { DAY_MS, type Target } from "./fleet-database.ts";

/**
 * Clusters that somebody looks at: their brokers are read every 2 s, and so often is their chart at 200 requests per
 * second, as by a page of the console.
 */
const WATCHED = 20;
/** Requests under way; what comes on top waits, and its wait counts. */
const OPEN_MAX = 200;

export interface ApiReads {
  /** By what was read; from the moment when the request was due, in milliseconds. */
  readonly timesMs: ReadonlyMap<string, number[]>;
  readonly failed: number;
}

interface Read {
  readonly what: string;
  readonly target: Target;
  readonly path: string;
}

/** Twenty requests: what pages, Terraform and programs read of the control plane. */
const MIX = [
  ...["cluster", "clusters", "operations", "environments", "tuning history"],
  ...["cluster", "clusters", "operations", "environments", "tuning history"],
  ...["cluster", "clusters", "operations", "tuning history", "cluster"],
  ...["cluster", "clusters", "cluster", "cluster", "chart, 15 min"],
] as const;

/** Also queries a chart of the last day twice a second. */
export async function readApi(
  url: string,
  targets: readonly Target[],
  { perSecond, seconds }: { perSecond: number; seconds: number },
): Promise<ApiReads> {
  const timesMs = new Map<string, number[]>();
  let failed = 0;
  const open = new Set<Promise<void>>();
  const begin = performance.now();
  const charts = Math.round(perSecond / 2);
  for (let index = 0; index < perSecond * seconds; index += 1) {
    const dueAt = begin + (index * 1_000) / perSecond;
    const wait = dueAt - performance.now();
    if (wait > 1) await sleep(wait);
    while (open.size >= OPEN_MAX) await Promise.race(open);
    start(readAt(index, targets), dueAt);
    if (index % charts === 0) start(dayChart(index / charts, targets), performance.now());
  }
  await Promise.all(open);
  return { timesMs, failed };

  function start(read: Read, dueAt: number): void {
    const request = get(url, read).then((ok) => {
      if (!ok) failed += 1;
      const times = timesMs.get(read.what) ?? [];
      times.push(performance.now() - dueAt);
      timesMs.set(read.what, times);
      open.delete(request);
    });
    open.add(request);
  }
}

/** Charts of a day, one after the other and nothing beside them; how long each took, in milliseconds. */
export async function readDayCharts(
  url: string,
  targets: readonly Target[],
  count: number,
): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const begin = performance.now();
    const ok = await get(url, dayChart(index, targets));
    if (!ok) throw new Error("a chart of a day cannot be read");
    times.push(performance.now() - begin);
  }
  return times;
}

function readAt(index: number, targets: readonly Target[]): Read {
  const what = MIX[index % MIX.length]!;
  const target = targets[(index * 7) % targets.length]!;
  switch (what) {
    case "cluster":
      return { what, target, path: `/v1/clusters/${target.id}` };
    case "clusters":
      return { what, target, path: "/v1/clusters?page_size=20" };
    case "operations":
      return { what, target, path: "/v1/operations?page_size=20" };
    case "environments":
      return { what, target, path: "/v1/environments" };
    case "tuning history":
      return { what, target, path: `/v1/clusters/${target.id}/tuning/history` };
    case "chart, 15 min": {
      const watched = targets[Math.floor(index / MIX.length) % WATCHED]!;
      return { what, target: watched, path: `/v1/clusters/${watched.id}/metrics` };
    }
  }
}

function dayChart(index: number, targets: readonly Target[]): Read {
  const target = targets[(index * 7) % targets.length]!;
  const to = Date.now();
  const path = `/v1/clusters/${target.id}/metrics?from=${to - DAY_MS}&to=${to}`;
  return { what: "chart, 24 h", target, path };
}

/** Each organization has an address of its own, as the limit of requests per address expects. */
async function get(url: string, { target, path }: Read): Promise<boolean> {
  const network = Number.parseInt(target.organizationId.slice(-3), 36) % 250;
  try {
    const response = await fetch(url + path, {
      headers: {
        authorization: `Bearer ${target.apiKey}`,
        "x-forwarded-for": `198.51.${network}.7`,
      },
    });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}
