import type { ClusterId, Principal } from "@millrace/domain";
import {
  findSeries,
  metadata,
  PromqlError,
  type PromqlErrorType,
  type QueryResult,
  queryAt,
  queryOver,
  TIME_MS_MAX,
} from "@millrace/metrics";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

/** Prometheus has the time since it was started; names are read of the last hour where no time is named. */
const NAMES_RANGE_MS = 3_600_000;

interface NamesRequest {
  /** Selectors; none selects all series. */
  readonly match: readonly string[];
  readonly startMs?: number | undefined;
  readonly endMs?: number | undefined;
  /** 0 is none. */
  readonly limit: number;
}

/** What Prometheus' HTTP API can be asked; times are in milliseconds. */
export type PromqlRequest =
  | { readonly kind: "query"; readonly query: string; readonly timeMs?: number | undefined }
  | {
      readonly kind: "query_range";
      readonly query: string;
      readonly startMs: number;
      readonly endMs: number;
      readonly stepMs: number;
    }
  | ({ readonly kind: "series" | "labels" } & NamesRequest)
  | ({ readonly kind: "label_values"; readonly label: string } & NamesRequest)
  | { readonly kind: "metadata"; readonly metric?: string | undefined }
  | { readonly kind: "buildinfo" };

/** In the shapes of Prometheus' HTTP API. */
export type PromqlAnswer =
  | { readonly status: "success"; readonly data: unknown }
  | { readonly status: "error"; readonly errorType: PromqlErrorType; readonly error: string };

/**
 * Answers from stored readings what Grafana asks a Prometheus. A mistake in the query is an answer.
 * Throws `not_found`, `rate_limited`.
 */
export async function queryPromql(
  core: Core,
  principal: Principal,
  clusterId: ClusterId,
  request: PromqlRequest,
): Promise<PromqlAnswer> {
  const cluster = await requireCluster(core, principal, clusterId);
  const release = core.requestSlots.acquire("promql", principal);
  const nowMs = core.clock.now().getTime();
  const source = { readings: core.db.metrics, clusterId, clusterName: cluster.name, nowMs };
  const endTurn = await turns.take();
  try {
    return { status: "success", data: await answer(source, request) };
  } catch (error) {
    if (!(error instanceof PromqlError)) throw error;
    return { status: "error", errorType: error.type, error: error.message };
  } finally {
    endTurn();
    release();
  }
}

type Source = Parameters<typeof findSeries>[0];

/** Queries at a time in this process: each may hold 200 MB of readings. Slots bound those that wait. */
const TURNS = 2;

/** First come, first served. */
class Turns {
  #free = TURNS;
  readonly #waiting: (() => void)[] = [];

  /** Resolves with what ends the turn. */
  async take(): Promise<() => void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return () => {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    };
  }
}

const turns = new Turns();

async function answer(source: Source, request: PromqlRequest): Promise<unknown> {
  switch (request.kind) {
    case "query":
      return query(source, request);
    case "query_range": {
      const { startMs, endMs } = request;
      assertTimes(startMs, endMs);
      return queryOver(source, request.query, request);
    }
    case "series":
      if (request.match.length === 0)
        throw new PromqlError("bad_data", "no match[] parameter provided");
      return limited(await seriesOf(source, request), request.limit);
    case "labels": {
      const series = await seriesOf(source, request);
      return limited(distinct(series.flatMap((labels) => labels.names())), request.limit);
    }
    case "label_values": {
      const series = await seriesOf(source, request);
      const values = series.map((labels) => labels.get(request.label));
      return limited(distinct(values.filter((value) => value !== "")), request.limit);
    }
    case "metadata":
      return metadata(request.metric);
    case "buildinfo":
      return BUILD;
  }
}

/** Grafana tells by it which requests it may send: those of this version of Prometheus. */
const BUILD = {
  version: "3.0.0",
  revision: "",
  branch: "",
  buildUser: "",
  buildDate: "",
  goVersion: "",
  application: "Millrace",
};

function query(
  source: Source,
  { query: text, timeMs = source.nowMs }: Extract<PromqlRequest, { kind: "query" }>,
): Promise<QueryResult> {
  assertTimes(timeMs);
  return queryAt(source, text, timeMs);
}

function seriesOf(source: Source, { match, startMs, endMs = source.nowMs }: NamesRequest) {
  const fromMs = startMs ?? endMs - NAMES_RANGE_MS;
  assertTimes(fromMs, endMs);
  return findSeries(source, match, { fromMs, toMs: endMs });
}

function assertTimes(...timesMs: readonly number[]): void {
  if (timesMs.every((timeMs) => Math.abs(timeMs) <= TIME_MS_MAX)) return;
  throw new PromqlError("bad_data", "a time is out of range");
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}

function limited<T>(items: readonly T[], limit: number): readonly T[] {
  return limit > 0 ? items.slice(0, limit) : items;
}
