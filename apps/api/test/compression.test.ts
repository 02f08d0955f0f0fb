import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();
const GZIP = { "accept-encoding": "gzip, deflate, br" };

test("a large answer is not sent uncompressed to clients that take gzip", async () => {
  const plain = await fixture.app.request("/v1/openapi.json");
  const packed = await fixture.app.request("/v1/openapi.json", { headers: GZIP });
  expect(plain.headers.get("content-encoding")).toBeNull();
  expect(packed.headers.get("content-encoding")).toBe("gzip");
  expect(packed.headers.get("vary")).toContain("Accept-Encoding");
  const bytes = Buffer.from(await packed.arrayBuffer());
  const text = await plain.text();
  expect(bytes.length).toBeLessThan(text.length / 3);
  expect(gunzipSync(bytes).toString()).toBe(text);
});

test("the ETag of a compressed answer is taken back by If-Match and If-None-Match", async () => {
  const { app, db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "packed");
  const path = `/v1/clusters/${cluster.id}`;
  const { apiKey } = ours;
  const got = await app.request(path, {
    headers: { ...GZIP, authorization: `Bearer ${apiKey}` },
  });
  const etag = got.headers.get("etag") ?? "";
  expect(etag).toMatch(/^W\//);
  const same = await call(app, "GET", path, { apiKey, headers: { "if-none-match": etag } });
  expect(same.status).toBe(304);
  const changed = await call(app, "PATCH", path, {
    apiKey,
    headers: { "if-match": etag },
    body: { labels: { team: "a" } },
  });
  expect(changed.status).toBe(200);
});

test("an event stream is not held back by compression", async () => {
  const { app, db, ours } = fixture;
  const { operation } = await runningCluster(db, ours, "streamed");
  const gone = new AbortController();
  const stream = await app.request(`/v1/operations/${operation.id}/events`, {
    headers: { ...GZIP, authorization: `Bearer ${ours.apiKey}` },
    signal: gone.signal,
  });
  expect(stream.headers.get("content-type")).toContain("text/event-stream");
  expect(stream.headers.get("content-encoding")).toBeNull();
  gone.abort();
});
