/**
 * The series that stored readings become, under the names and labels that brokers expose: a dashboard for a Prometheus that
 * scrapes brokers works here too, as far as what it shows is stored.
 */
import {
  type LagSample,
  type MetricScrape,
  NETWORK_TIERS,
  type TopicScrape,
} from "@millrace/domain";

export type ReadingKind = "broker" | "topics" | "groups";

/** Values by the one label that tells the series of a reading apart; `""` where there is only one. */
type Values = readonly (readonly [labelValue: string, value: number])[];

interface MetricBase {
  readonly name: string;
  /** As Prometheus' metadata has it: of a histogram, the name without `_bucket` or `_sum`. */
  readonly family: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  /** Beside `cluster` and those of the reading's source. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The label of `Values`. */
  readonly variesBy?: "tier" | "le";
}

interface BrokerMetric extends MetricBase {
  readonly kind: "broker";
  readonly valuesOf: (reading: MetricScrape) => Values;
}

interface TopicMetric extends MetricBase {
  readonly kind: "topics";
  readonly valuesOf: (reading: TopicScrape) => Values;
}

interface GroupMetric extends MetricBase {
  readonly kind: "groups";
  readonly valuesOf: (reading: LagSample) => Values;
}

export type Metric = BrokerMetric | TopicMetric | GroupMetric;

export const METRICS: readonly Metric[] = [
  topicCounter("millrace_topic_bytes_in_total", "bytesIn", "Bytes that producers wrote"),
  topicCounter("millrace_topic_bytes_out_total", "bytesOut", "Bytes that consumers read"),
  topicCounter("millrace_topic_records_in_total", "recordsIn", "Records that producers wrote"),
  brokerCounter(
    "millrace_block_cache_hits_total",
    "cacheHits",
    "Reads that the block cache served",
  ),
  brokerCounter("millrace_block_cache_misses_total", "cacheMisses", "Reads that it did not serve"),
  brokerCounter(
    "millrace_block_cache_fetched_bytes_total",
    "cacheFetchedBytes",
    "Bytes read from the bucket",
  ),
  brokerCounter(
    "millrace_block_cache_delivered_bytes_total",
    "cacheDeliveredBytes",
    "Bytes given to readers",
  ),
  {
    kind: "broker",
    name: "millrace_connections",
    family: "millrace_connections",
    type: "gauge",
    help: "Open connections of Kafka clients",
    valuesOf: ({ connections }) => one(connections),
  },
  {
    kind: "broker",
    name: "millrace_network_bytes_total",
    family: "millrace_network_bytes_total",
    type: "counter",
    help: "Bytes moved in both directions",
    variesBy: "tier",
    valuesOf: ({ tierBytes }) => byTier(tierBytes, 1),
  },
  {
    kind: "broker",
    name: "millrace_network_wait_seconds_sum",
    family: "millrace_network_wait_seconds",
    type: "histogram",
    help: "Time that requests waited for the network",
    variesBy: "tier",
    valuesOf: ({ tierWaitUs }) => byTier(tierWaitUs, 1e-6),
  },
  {
    kind: "broker",
    name: "millrace_request_seconds_bucket",
    family: "millrace_request_seconds",
    type: "histogram",
    help: "Time from a request's arrival to its answer's leaving",
    labels: { api: "Produce" },
    variesBy: "le",
    valuesOf: ({ bucketBoundsUs, produceBuckets }) => byBound(bucketBoundsUs, produceBuckets),
  },
  {
    kind: "broker",
    name: "millrace_request_service_seconds_bucket",
    family: "millrace_request_service_seconds",
    type: "histogram",
    help: "As millrace_request_seconds, without the time that a fetch waits for data",
    labels: { api: "Fetch" },
    variesBy: "le",
    valuesOf: ({ bucketBoundsUs, fetchBuckets }) => byBound(bucketBoundsUs, fetchBuckets),
  },
  {
    kind: "groups",
    name: "millrace_group_lag",
    family: "millrace_group_lag",
    type: "gauge",
    help: "Records that a consumer group has yet to read, over all its partitions",
    valuesOf: ({ lag }) => one(Number(lag)),
  },
];

function topicCounter(
  name: string,
  counter: "bytesIn" | "bytesOut" | "recordsIn",
  help: string,
): TopicMetric {
  const valuesOf = (reading: TopicScrape) => one(Number(reading[counter]));
  return { kind: "topics", name, family: name, type: "counter", help, valuesOf };
}

function brokerCounter(
  name: string,
  counter: "cacheHits" | "cacheMisses" | "cacheFetchedBytes" | "cacheDeliveredBytes",
  help: string,
): BrokerMetric {
  const valuesOf = (reading: MetricScrape) => one(Number(reading[counter]));
  return { kind: "broker", name, family: name, type: "counter", help, valuesOf };
}

function one(value: number): Values {
  return [["", value]];
}

/** Readings from before tiers were read have none. */
function byTier(amounts: readonly bigint[], scale: number): Values {
  return amounts.map((amount, index) => [NETWORK_TIERS[index] ?? "", Number(amount) * scale]);
}

/** Bounds in seconds, as brokers write them. */
function byBound(boundsUs: readonly number[], counts: readonly bigint[]): Values {
  return counts.map((count, index) => {
    const boundUs = boundsUs[index];
    return [boundUs === undefined ? "+Inf" : String(boundUs / 1e6), Number(count)];
  });
}
