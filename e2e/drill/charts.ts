/** Produce rates as the charts show them. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Json, rest, type TestCluster } from "../product.ts";
import { errorRow, type Row, relativeError } from "./comparison.ts";
import type { CountHistory } from "./count-history.ts";
import type { CountingProducer } from "./counting-producer.ts";
import { RATE_LIMIT } from "./measures.ts";
import type { Outcome } from "./scenarios.ts";

/** A topic is read this often, soon after a multiple of it while somebody looks at the charts. */
const READING_SECONDS = 10;
const READING_MS_MAX = 60_000;
/** The step of a chart that shows what happens now, and how often the console asks for it. */
const LIVE_STEP_SECONDS = 2;
const LIVE_MS = 5_000;

/** Looks at the cluster's charts until it is stopped, as somebody does who has the console open. */
export function lookAtCharts({ id }: TestCluster): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const looking = (async () => {
    while (!stopping.signal.aborted) {
      const from = Date.now() - LIVE_MS;
      await rest("GET", `/v1/clusters/${id}/metrics?from=${from}&step=${LIVE_STEP_SECONDS}`);
      await sleep(LIVE_MS, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  })();
  return {
    stop() {
      stopping.abort();
      return looking;
    },
  };
}

/** What is produced to the topic while its group reads. */
export async function topicRateRows(cluster: TestCluster, outcome: Outcome): Promise<Row[]> {
  const { producer, reading, topic } = outcome.workload;
  if (producer.ackedRecords.newestAt <= reading.since) return [];
  const stepSeconds = outcome.chartStepSeconds ?? READING_SECONDS;
  return chartRows(cluster, {
    ...{ of: "topic", filter: `&topic=${topic}`, stepSeconds },
    ...{ producers: [producer], since: reading.since },
  });
}

/** What is produced to all topics of the cluster. */
export async function clusterRateRows(
  cluster: TestCluster,
  outcomes: readonly Outcome[],
): Promise<Row[]> {
  return chartRows(cluster, {
    ...{ of: "cluster", filter: "", stepSeconds: READING_SECONDS },
    producers: outcomes.map(({ workload }) => workload.producer),
    since: Math.min(...outcomes.map(({ workload }) => workload.reading.since)),
  });
}

interface Chart {
  of: string;
  filter: string;
  stepSeconds: number;
  /** All that produce what it shows. */
  producers: readonly CountingProducer[];
  since: number;
}

async function chartRows(cluster: TestCluster, chart: Chart): Promise<Row[]> {
  const { of, filter, stepSeconds, producers, since } = chart;
  // What was before the group read is not in the first point.
  const from = since + 2 * READING_SECONDS * 1_000;
  const to = Math.max(...producers.map(({ ackedRecords }) => ackedRecords.newestAt));
  const path = `/v1/clusters/${cluster.id}/metrics?from=${from}&to=${to}&step=${stepSeconds}${filter}`;
  const series = await read(path, to);
  const row = (measure: string, name: string, histories: readonly CountHistory[]) => {
    const { points } = series.find((each: Json) => each.name === name);
    const errors = points.map(([endMs, value]: [number, number | null]) => {
      const fromMs = endMs - stepSeconds * 1_000;
      const truth = histories.reduce((sum, each) => sum + each.perSecond(fromMs, endMs), 0);
      return relativeError(value ?? 0, truth);
    });
    return errorRow(measure, errors, RATE_LIMIT, `steps of ${stepSeconds} s`);
  };
  return [
    row(
      `produced records, ${of}`,
      "records_in_rate",
      producers.map(({ ackedRecords }) => ackedRecords),
    ),
    row(
      `produced bytes, ${of}`,
      "bytes_in_rate",
      producers.map(({ ackedBytes }) => ackedBytes),
    ),
  ];
}

/** The series, once the cluster was read after this moment. */
async function read(path: string, to: number): Promise<Json> {
  for (let waited = 0; waited < READING_MS_MAX; waited += 1_000) {
    const { status, body } = await rest("GET", path);
    if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`);
    if (body.newest_at > to + READING_SECONDS * 1_000) return body.series;
    await sleep(1_000);
  }
  throw new Error(`no reading of the cluster in ${READING_MS_MAX} ms`);
}
