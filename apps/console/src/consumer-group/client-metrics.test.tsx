import type { MeasuredClient } from "@millrace/contract";
import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { ClientMetrics, MetricsTable } from "./client-metrics.tsx";

const CLUSTER_ID = "clu_1";
const GAUGE = { name: "lag", labels: { topic: "t", partition: "3" }, kind: "gauge" } as const;

function measured(more: Partial<MeasuredClient> = {}): MeasuredClient {
  return {
    ...{ client_id: "orders", client_instance_id: "i", software_name: "apache-kafka-java" },
    ...{ software_version: "4.1.1", address: "10.0.0.1", interval_ms: 1_000, terminating: false },
    pushed_at: new Date().toISOString(),
    metrics: [{ ...GAUGE, value: 1234.5, count: null }],
    ...more,
  };
}

function section(items: MeasuredClient[], truncated = false): string {
  const api = new FakeApi();
  const key = api.trpc.clientMetrics.list.queryKey({ cluster_id: CLUSTER_ID });
  api.queryClient.setQueryData(key, { items, truncated });
  return api.render(<ClientMetrics clusterId={CLUSTER_ID} />);
}

function table(client: MeasuredClient): string {
  return new FakeApi().render(<MetricsTable client={client} />);
}

test("there is no section before the answer, and where no client pushes metrics", () => {
  expect(new FakeApi().render(<ClientMetrics clusterId={CLUSTER_ID} />)).not.toContain("section");
  expect(section([])).not.toContain("section");
});

test("a client is listed with its software, its address and its last push", () => {
  const html = section([measured()]);
  for (const text of ["orders", "apache-kafka-java 4.1.1", "10.0.0.1", "Pushed ", "just now"]) {
    expect(html).toContain(text);
  }
  expect(html).not.toContain("stopped");
  expect(html).not.toContain("not shown");
});

test("a client may have stopped, and may have neither client ID nor software", () => {
  const nameless = { client_id: "", software_name: null, software_version: null };
  const html = section([measured({ ...nameless, terminating: true })], true);
  for (const text of ["(no client ID)", "stopped", "Some clients or metrics are not shown."]) {
    expect(html).toContain(text);
  }
  expect(html).not.toContain("null");
});

test("values are listed with their labels; a histogram has a count and a sum", () => {
  const latency = { ...GAUGE, name: "latency", labels: {}, kind: "histogram" } as const;
  const metrics = [
    { ...GAUGE, value: 1234.5, count: null },
    { ...latency, value: 1.5, count: 2_000 },
    { ...GAUGE, name: "unknown", value: null, count: null },
  ];
  const html = table(measured({ metrics }));
  for (const text of ["topic=t, partition=3", ">1,234.5<", "count 2,000, sum 1.5", ">–<"]) {
    expect(html).toContain(text);
  }
});

test("no more than 500 values of a client are listed", () => {
  const metrics = Array.from({ length: 1_001 }, (_, nth) => ({
    ...{ ...GAUGE, labels: { nth: `${nth}` }, value: 0, count: null },
  }));
  const html = table(measured({ metrics }));
  expect(html.match(/nth=/g)).toHaveLength(500);
  expect(html).toContain("The first 500 of 1,001 values are shown.");
});

test("what clients call themselves and their metrics is text, not markup", () => {
  const evil = "<script>alert(1)</script>";
  const metrics = [{ ...GAUGE, name: evil, labels: { [evil]: evil }, value: 0, count: null }];
  const client = measured({ client_id: evil, software_name: evil, metrics });
  expect(section([client]) + table(client)).not.toContain(evil);
});
