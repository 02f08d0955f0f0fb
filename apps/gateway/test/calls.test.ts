import { randomBytes } from "node:crypto";
import type { ServerHttp2Stream } from "node:http2";
import { Readable } from "node:stream";
import { afterEach, describe, expect, test } from "vitest";
import { STREAM_WAIT_MS_MAX, STREAMS_PER_LINK_MAX, WAITING_PER_LINK_MAX } from "../src/bounds.ts";
import { idsOf } from "./fake-broker.ts";
import { call, errorOf, eventually, gatewayFixture, reached } from "./fixture.ts";

const fixture = gatewayFixture();
afterEach(() => fixture.endAll());

test("a call reaches the broker with what it says, and no more, and comes back", async () => {
  const gateway = await fixture.gateway();
  const broker = await fixture.broker(gateway.brokerPort);
  await broker.connect();
  await reached(gateway, broker.options);
  const response = await call(gateway, broker.options, "/v1/topics/a%2Fb?x=1&y=%20", {
    method: "PATCH",
    body: "the body",
    headers: { "content-type": "text/plain", "idempotency-key": "k", cookie: "c", "x-other": "o" },
  });
  const { headers, body } = (await response.json()) as {
    headers: Record<string, string>;
    body: string;
  };
  expect(body).toBe("the body");
  expect(headers).toMatchObject({
    ":method": "PATCH",
    ":path": "/v1/topics/a%2Fb?x=1&y=%20",
    "content-type": "text/plain",
    "idempotency-key": "k",
    "millrace-cluster": broker.options.clusterId,
    "millrace-broker": "0",
  });
  for (const name of ["authorization", "cookie", "x-other"])
    expect(headers).not.toHaveProperty(name);
});

test("each call is answered by its own broker", async () => {
  const gateway = await fixture.gateway();
  const clusters = [await fixture.cluster(), await fixture.cluster()];
  const brokers = await Promise.all(
    clusters.flatMap((clusterId) =>
      [0, 1].map((brokerId) => fixture.broker(gateway.brokerPort, { clusterId, brokerId })),
    ),
  );
  await Promise.all(brokers.map((broker) => broker.connect()));
  await Promise.all(brokers.map((broker) => reached(gateway, broker.options)));
});

describe("a gateway's own errors", () => {
  test("tell that there is no such address, token or broker", async () => {
    const gateway = await fixture.gateway();
    const { options } = await fixture.broker(gateway.brokerPort);
    const without = { headers: { authorization: "Bearer other" } };
    expect(await errorOf(await call(gateway, options, "/", without))).toMatchObject({
      status: 401,
      code: "UNAUTHORIZED",
    });
    const strange = { ...options, clusterId: "clu_x" as typeof options.clusterId };
    expect(await errorOf(await call(gateway, strange))).toMatchObject({ code: "NOT_FOUND" });
    expect(await errorOf(await call(gateway, options))).toMatchObject({
      status: 503,
      code: "BROKER_NOT_CONNECTED",
      message: "The broker has never been connected.",
    });
  });

  test("tell since when a broker is away", async () => {
    const gateway = await fixture.gateway();
    const broker = await fixture.broker(gateway.brokerPort);
    await broker.connect();
    await reached(gateway, broker.options);
    broker.cut();
    await eventually(async () => {
      const error = await errorOf(await call(gateway, broker.options));
      expect(error.message).toMatch(/^The broker has not been connected since 20\d\d-/);
    });
  });

  test("tell that the outcome is unknown when the link breaks under a call", async () => {
    const gateway = await fixture.gateway();
    const broker = await fixture.broker(gateway.brokerPort, undefined, () => broker.cut());
    await broker.connect();
    await eventually(() => expect(gateway.links.size).toBe(1));
    expect(await errorOf(await call(gateway, broker.options))).toMatchObject({
      status: 502,
      code: "BROKER_DISCONNECTED",
    });
  });

  test("tell that the broker has not seen a request that it refused", async () => {
    const gateway = await fixture.gateway();
    const broker = await fixture.broker(gateway.brokerPort, undefined, (stream) => stream.close(7));
    await broker.connect();
    await eventually(() => expect(gateway.links.size).toBe(1));
    expect(await errorOf(await call(gateway, broker.options))).toMatchObject({
      code: "BROKER_NOT_CONNECTED",
    });
  });

  test.each([
    ["another broker, with success", 200, { "millrace-broker": "7" }],
    ["another broker, with an error", 404, { "millrace-broker": "7" }],
    ["a broker of another cluster", 200, { "millrace-cluster": "clu_other" }],
    ["a broker that does not say which", 500, { "millrace-broker": undefined }],
    ["a broker that does not say of which cluster", 200, { "millrace-cluster": undefined }],
  ])("tell that %s has answered, and cut the link", async (_who, status, others) => {
    const gateway = await fixture.gateway();
    const broker = await fixture.broker(gateway.brokerPort, undefined, (stream, headers) => {
      stream.respond({ ":status": status, ...idsOf(headers), ...others });
      stream.end("not mine");
    });
    await broker.connect();
    await eventually(() => expect(gateway.links.size).toBe(1));
    const response = await call(gateway, broker.options);
    expect(response.headers.get("millrace-gateway-error")).toBe("WRONG_BROKER");
    expect(await errorOf(response)).toMatchObject({ status: 502, code: "WRONG_BROKER" });
    await eventually(() => expect(gateway.links.size).toBe(0));
  });

  test("are marked, also behind a second gateway, and a broker cannot mark its own so", async () => {
    const [gateway, other] = [await fixture.gateway(), await fixture.gateway()];
    const said = { error: { code: "BROKER_BUSY", message: "not the gateway's" } };
    const broker = await fixture.broker(gateway.brokerPort, undefined, (stream, headers) => {
      const ids = headers[":path"] === "/wrong" ? {} : idsOf(headers);
      stream.respond({ ":status": 429, ...ids, "millrace-gateway-error": "BROKER_BUSY" });
      stream.end(JSON.stringify(said));
    });
    await broker.connect();
    await eventually(() => expect(gateway.links.size).toBe(1));
    for (const from of [gateway, other]) {
      const response = await eventually(async () => {
        const answer = await call(from, broker.options);
        expect(answer.status).toBe(429);
        return answer;
      });
      expect(response.headers.has("millrace-gateway-error")).toBe(false);
      expect(await response.json()).toEqual(said);
    }
    const wrong = await call(other, broker.options, "/wrong");
    expect(wrong.headers.get("millrace-gateway-error")).toBe("WRONG_BROKER");
  });

  test("tell that the broker itself found the request misdirected", async () => {
    const gateway = await fixture.gateway();
    let calls = 0;
    const broker = await fixture.broker(gateway.brokerPort, undefined, (stream) => {
      calls += 1;
      const ids = { "millrace-cluster": broker.options.clusterId, "millrace-broker": "0" };
      stream.respond({ ":status": 421, ...ids }, { endStream: true });
    });
    await broker.connect();
    await eventually(() => expect(gateway.links.size).toBe(1));
    const response = await call(gateway, broker.options, "/", {
      headers: { "millrace-broker": "8" },
    });
    expect(await errorOf(response)).toMatchObject({ status: 502, code: "WRONG_BROKER" });
    expect(gateway.links.size).toBe(1);
    expect(calls, "fetch repeats a request that is answered 421").toBe(1);
  });
});

test("an answer that the broker breaks off is not taken for a whole one", async () => {
  const gateway = await fixture.gateway();
  const broker = await fixture.broker(gateway.brokerPort, undefined, (stream, headers) => {
    stream.respond({ ":status": 200, ...idsOf(headers) });
    stream.write("half");
    const breakOff = () =>
      headers[":path"] === "/cut" ? broker.cut() : stream.destroy(new Error("broken"));
    setTimeout(breakOff, 100);
  });
  for (const from of [gateway, await fixture.gateway()]) {
    for (const path of ["/broken", "/cut"]) {
      if (!broker.isConnected) await broker.connect();
      const response = await eventually(async () => {
        const answer = await call(from, broker.options, path);
        expect(answer.status).toBe(200);
        return answer;
      });
      await expect(response.text(), path).rejects.toThrow();
    }
  }
});

test("a broker that never answers keeps its stream until the caller goes, and no longer", async () => {
  const gateway = await fixture.gateway();
  const streams: ServerHttp2Stream[] = [];
  const broker = await fixture.broker(gateway.brokerPort, undefined, (stream) => {
    streams.push(stream);
  });
  await broker.connect();
  await eventually(() => expect(gateway.links.size).toBe(1));
  const leaving = new AbortController();
  const calls = Array.from({ length: STREAMS_PER_LINK_MAX }, () =>
    call(gateway, broker.options, "/", { signal: leaving.signal }).catch(() => "gone"),
  );
  await eventually(() => expect(streams).toHaveLength(STREAMS_PER_LINK_MAX));

  // As many wait, and give up; one more does not even wait.
  const startedAt = performance.now();
  const waiting = Array.from({ length: WAITING_PER_LINK_MAX + 1 }, async () => {
    const error = await errorOf(await call(gateway, broker.options));
    return { ...error, afterMs: performance.now() - startedAt };
  });
  const errors = await Promise.all(waiting);
  for (const error of errors) expect(error).toMatchObject({ status: 429, code: "BROKER_BUSY" });
  const waited = errors.filter(({ afterMs }) => afterMs >= STREAM_WAIT_MS_MAX * 0.9);
  expect(waited).toHaveLength(WAITING_PER_LINK_MAX);
  expect(streams).toHaveLength(STREAMS_PER_LINK_MAX);

  leaving.abort();
  expect(await Promise.all(calls)).toEqual(calls.map(() => "gone"));
  await eventually(() => expect(streams.every((stream) => stream.closed)).toBe(true));
  expect(streams.every((stream) => stream.rstCode === 8)).toBe(true);
  expect(broker.isConnected).toBe(true);
});

test("a caller that reads slowly slows its own answer down, and no other", async () => {
  const gateway = await fixture.gateway();
  const chunk = randomBytes(64 * 1024);
  const sent: number[] = [];
  const broker = await fixture.broker(gateway.brokerPort, undefined, async (stream, headers) => {
    stream.respond({ ":status": 200, ...idsOf(headers) });
    if (headers[":path"] === "/v1/status") return void stream.end("ok");
    const index = sent.push(0) - 1;
    const source = new Readable({
      read() {
        sent[index]! += chunk.length;
        this.push(chunk);
      },
    });
    stream.once("close", () => source.destroy());
    source.pipe(stream);
  });
  await broker.connect();
  await eventually(() => expect(gateway.links.size).toBe(1));
  const leaving = new AbortController();
  const { signal } = leaving;
  const responses = await Promise.all(
    Array.from({ length: 40 }, () => call(gateway, broker.options, "/endless", { signal })),
  );
  // None of them is read: what is under way is bounded by windows and sockets.
  let before: number;
  do {
    before = sent.reduce((sum, bytes) => sum + bytes, 0);
    await reached(gateway, broker.options);
    await new Promise((resolve) => setTimeout(resolve, 500));
  } while (sent.reduce((sum, bytes) => sum + bytes, 0) > before);
  expect(sent).toHaveLength(40);
  for (const bytes of sent) expect(bytes).toBeLessThan(16 * 1024 * 1024);
  // A reader gets more than all that together.
  const reader = responses[0]!.body!.getReader();
  for (let bytes = 0; bytes < 32 * 1024 * 1024; ) bytes += (await reader.read()).value!.byteLength;
  leaving.abort();
});

test("a large body goes up at the pace of the broker", async () => {
  const gateway = await fixture.gateway();
  let received = 0;
  const broker = await fixture.broker(gateway.brokerPort, undefined, async (stream, headers) => {
    for await (const chunk of stream) received += (chunk as Buffer).length;
    stream.respond({ ":status": 204, ...idsOf(headers) }, { endStream: true });
  });
  await broker.connect();
  await eventually(() => expect(gateway.links.size).toBe(1));
  const body = randomBytes(8 * 1024 * 1024);
  const response = await call(gateway, broker.options, "/", { method: "POST", body });
  expect(response.status).toBe(204);
  expect(received).toBe(body.length);
});

test("a broker may answer before it has the whole body", async () => {
  const gateway = await fixture.gateway();
  const broker = await fixture.broker(gateway.brokerPort, undefined, (stream, headers) => {
    stream.respond({ ":status": 413, ...idsOf(headers) });
    stream.end("too large");
  });
  await broker.connect();
  await eventually(() => expect(gateway.links.size).toBe(1));
  const body = randomBytes(8 * 1024 * 1024);
  const response = await call(gateway, broker.options, "/", { method: "POST", body });
  expect(response.status).toBe(413);
  expect(await response.text()).toBe("too large");
  await reached(
    gateway,
    (await fixture.broker(gateway.brokerPort).then((b) => b.connect())).options,
  );
});

test("headers that are too large end the call, not the link", async () => {
  const gateway = await fixture.gateway();
  const broker = await fixture.broker(gateway.brokerPort, undefined, (stream, headers) => {
    const size = headers[":path"] === "/huge" ? 40_000 : 10;
    stream.respond({ ":status": 200, ...idsOf(headers), "x-large": "x".repeat(size) });
    stream.end();
  });
  await broker.connect();
  await eventually(() => expect(gateway.links.size).toBe(1));
  expect(await errorOf(await call(gateway, broker.options, "/huge"))).toMatchObject({
    code: "BROKER_DISCONNECTED",
  });
  await broker.connect().catch(() => {});
  await reached(gateway, broker.options);
});
