import { bootstrapServers } from "@millrace/domain";
import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

test("a scrape answers OpenMetrics to who may read metrics, and 503 where the broker is down", async () => {
  const { app, db, kafka, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "scraped");
  const address = bootstrapServers(cluster) ?? "";
  kafka.metricsTexts.set(address, "# TYPE millrace_x_total counter\nmillrace_x_total 7\n");
  const path = `/v1/clusters/${cluster.id}/prometheus`;
  const headers = { authorization: `Bearer ${ours.apiKey}` };
  const answer = await app.request(path, { headers });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe(
    "application/openmetrics-text; version=1.0.0; charset=utf-8",
  );
  const text = await answer.text();
  expect(text).toContain('# TYPE millrace_x counter\nmillrace_x_total{broker="0"} 7\n');
  expect(text.endsWith("# EOF\n")).toBe(true);
  expect((await app.request(path)).status).toBe(401);
  kafka.down.add(address);
  const down = await call(app, "GET", path, { apiKey: ours.apiKey });
  expect([down.status, down.body.code]).toEqual([503, "broker_unavailable"]);
});

test("a query is about one of broker, topic and group, and its CSV has the same series", async () => {
  const { app, db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "exported");
  const path = `/v1/clusters/${cluster.id}/metrics`;
  const get = (query: string) => call(app, "GET", `${path}?${query}`, { apiKey: ours.apiKey });
  expect((await get("topic=a&group=b")).status).toBe(400);
  const topics = `/v1/clusters/${cluster.id}/topics`;
  await call(app, "POST", topics, { apiKey: ours.apiKey, body: { name: "a" } });
  const { body } = await get("topic=a&step=10s");
  expect([body.newest_at, body.step_seconds]).toEqual([null, 10]);
  expect(body.series.map(({ name }: { name: string }) => name)).toEqual([
    ...["bytes_in_rate", "bytes_out_rate", "records_in_rate"],
  ]);
  const old = Date.now() - 20 * 86_400_000;
  expect((await get(`from=${old}&to=${old + 3_600_000}&step=10`)).body.step_seconds).toBe(600);
  const headers = { authorization: `Bearer ${ours.apiKey}` };
  const range = `from=${old}&to=${old + 120_000}`;
  const csv = await app.request(`${path}/export?topic=a&step=60&${range}`, { headers });
  expect(csv.headers.get("content-type")).toBe("text/csv; charset=utf-8");
  expect((await csv.text()).split("\r\n")[0]).toBe(
    "time,bytes_in_rate (bytes_per_second),bytes_out_rate (bytes_per_second),records_in_rate (records_per_second)",
  );
});
