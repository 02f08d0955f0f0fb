/**
 * A gateway with the brokers of many clusters behind it, as a process of its own. Each answer has the families, and about
 * as many samples, of a real broker's. Prints its port, and at SIGTERM how long after the one before it each reading came.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { LATENCY_BOUNDS_US } from "@millrace/metrics";

/** Beside those that the product stores: what a broker counts of each Kafka API, of its log, caches and objects. */
const OTHER_SAMPLES = 3_000;
const BYTES_PER_SECOND = 1_000_000;
const RECORDS_PER_SECOND = 1_000;
const REQUESTS_PER_SECOND = 100;
const PATH = /^\/v1\/clusters\/(clu_\w+)\/brokers\/(\d+)(\/[^?]*)/;

const topics = Number(process.argv[2]);
const startedAt = Date.now();
const others = otherSamples();
const lastReadAt = new Map<string, number>();
const intervalsMs: number[] = [];

const server = createServer((request, response) => {
  const [, cluster = "", broker = "", path = ""] = PATH.exec(request.url ?? "") ?? [];
  response.setHeader("millrace-cluster", cluster);
  response.setHeader("millrace-broker", broker);
  answer(response, `${cluster}/${broker}`, path);
});
server.listen(0, "127.0.0.1", () =>
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`),
);
process.once("SIGTERM", () => {
  process.stdout.write(`${JSON.stringify(intervalsMs)}\n`, () => process.exit(0));
});

function answer(response: ServerResponse, broker: string, path: string): void {
  switch (path) {
    case "/metrics":
      noteReading(broker);
      response.end(metricsText(broker));
      return;
    case "/v1/status":
      response.end(JSON.stringify({ version: "0.1.0", uptime_ms: Date.now() - startedAt }));
      return;
    case "/v1/groups":
      response.end(JSON.stringify({ groups: [group()], next: null }));
      return;
    default:
      response.writeHead(404).end();
  }
}

function noteReading(broker: string): void {
  const now = performance.now();
  const before = lastReadAt.get(broker);
  if (before !== undefined) intervalsMs.push(Math.round(now - before));
  lastReadAt.set(broker, now);
}

/** Counters that grow with time, each broker's and topic's at a pace of its own. */
function metricsText(broker: string): string {
  const seconds = (Date.now() - startedAt) / 1_000;
  const pace = 0.5 + (broker.charCodeAt(broker.length - 3) % 16) / 16;
  const lines = [others];
  for (let topic = 0; topic < topics; topic += 1) {
    const share = (seconds * pace * (topic + 1)) / topics;
    const label = `{topic="topic-${topic}"}`;
    lines.push(
      `millrace_topic_bytes_in_total${label} ${Math.round(share * BYTES_PER_SECOND)}`,
      `millrace_topic_bytes_out_total${label} ${Math.round(share * BYTES_PER_SECOND * 2)}`,
      `millrace_topic_records_in_total${label} ${Math.round(share * RECORDS_PER_SECOND)}`,
    );
  }
  const requests = Math.round(seconds * pace * REQUESTS_PER_SECOND);
  for (const [name, api] of [
    ["millrace_request_seconds_bucket", "Produce"],
    ["millrace_request_service_seconds_bucket", "Fetch"],
  ]) {
    for (const [index, bound] of LATENCY_BOUNDS_US.entries()) {
      const count = Math.round(requests * (1 - Math.exp(-(index + 1) / 4)));
      lines.push(`${name}{api="${api}",le="${bound / 1e6}"} ${count}`);
    }
    lines.push(`${name}{api="${api}",le="+Inf"} ${requests}`);
  }
  return `${lines.join("\n")}\n`;
}

function otherSamples(): string {
  const lines = ["# TYPE millrace_request_queue_seconds histogram"];
  for (let index = 0; index < OTHER_SAMPLES; index += 1) {
    const labels = `{api="Api${index % 60}",version="${index % 12}",le="0.0${index % 50}"}`;
    lines.push(`millrace_request_queue_seconds_bucket${labels} ${index * 37}`);
  }
  return lines.join("\n");
}

function group() {
  const lag = Math.round(5_000 * (1 + Math.sin(Date.now() / 60_000)));
  return {
    group_id: "readers",
    state: "Stable",
    protocol_type: "consumer",
    member_count: 3,
    partition_count: topics,
    offline_partition_count: 0,
    lag: String(lag),
    committed_offset_sum: String(Date.now() - startedAt),
  };
}
