import type { Operation } from "@millrace/domain";
import { expect, test, vi } from "vitest";
import { apiFixture, call } from "./fixture.ts";

const fixture = apiFixture();

interface StreamedEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string | undefined;
}

async function newOperation(name: string): Promise<Operation["id"]> {
  const { app, ours } = fixture;
  const made = await call(app, "POST", "/v1/clusters", { apiKey: ours.apiKey, body: { name } });
  return made.body.operation_id;
}

/** Opens the stream and reads events until `stop` says that these are enough. */
async function read(
  id: string,
  stop: (events: StreamedEvent[]) => boolean,
  headers: Record<string, string> = {},
): Promise<StreamedEvent[]> {
  const response = await fixture.app.request(`/v1/operations/${id}/events`, {
    headers: { authorization: `Bearer ${fixture.ours.apiKey}`, ...headers },
  });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const events: StreamedEvent[] = [];
  let text = "";
  while (!stop(events)) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    events.push(...blocks.filter((block) => !block.startsWith(":")).map(parse));
  }
  await reader.cancel();
  return events;
}

function parse(block: string): StreamedEvent {
  const field = (name: string) =>
    block
      .split("\n")
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2);
  return { id: field("id"), event: field("event"), data: field("data") };
}

test("a reader that comes back goes on after the last event it has seen", async () => {
  const { db } = fixture;
  const operationId = await newOperation("resumed");
  const fence = { operationId, attempt: 1 };
  await db.journal.claim(operationId, "test", 60_000);
  await db.journal.recordStep(fence, { name: "reserve_ports", state: "RUNNING" });
  const first = await read(operationId, (events) => events.length >= 2);
  expect(first.slice(0, 2).map((event) => event.id)).toEqual(["1", "2"]);

  await db.journal.recordStep(fence, { name: "reserve_ports", state: "SUCCEEDED" });
  const later = await read(operationId, (events) => events.length >= 2, { "last-event-id": "2" });
  expect(later.slice(0, 2).map((event) => [event.id, event.event])).toEqual([
    ["3", "step.started"],
    ["4", "step.succeeded"],
  ]);
});

test("events arrive while the operation runs, and the stream ends with it", async () => {
  const { db } = fixture;
  const operationId = await newOperation("live");
  const all = read(operationId, () => false);
  await db.journal.claim(operationId, "test", 60_000);
  const fence = { operationId, attempt: 1 };
  for (const name of ["reserve_ports", "prepare_broker"]) {
    await db.journal.recordStep(fence, { name, state: "RUNNING" });
    await new Promise((resolve) => setTimeout(resolve, 50));
    await db.journal.recordStep(fence, { name, state: "SUCCEEDED" });
  }
  await db.journal.complete(fence, { phase: "SUCCEEDED" });
  const events = await all;
  expect(events.map((event) => event.event)).toEqual([
    "operation.created",
    "operation.claimed",
    "step.started",
    "step.succeeded",
    "step.started",
    "step.succeeded",
    "operation.succeeded",
    "end",
  ]);
  expect(events.slice(0, -1).map((event) => event.id)).toEqual(["1", "2", "3", "4", "5", "6", "7"]);
  expect(JSON.parse(events[6]?.data ?? "")).toMatchObject({ operation_id: operationId, seq: 7 });
});

test("a stream of an operation that is done gives what is left, and ends", async () => {
  const { db } = fixture;
  const operationId = await newOperation("done");
  await db.journal.claim(operationId, "test", 60_000);
  await db.journal.complete({ operationId, attempt: 1 }, { phase: "FAILED" });
  const rest = await read(operationId, () => false, { "last-event-id": "2" });
  expect(rest.map((event) => event.event)).toEqual(["operation.failed", "end"]);
  const nothing = await read(operationId, () => false, { "last-event-id": "3" });
  expect(nothing.map((event) => event.event)).toEqual(["end"]);
});

test("a last event that no operation can have is refused", async () => {
  const operationId = await newOperation("far");
  const answer = await call(fixture.app, "GET", `/v1/operations/${operationId}/events`, {
    apiKey: fixture.ours.apiKey,
    headers: { "last-event-id": "99999999999" },
  });
  expect(answer.status).toBe(400);
});

test("HEAD of a stream is answered without a stream behind it", async () => {
  const operationId = await newOperation("head");
  const wait = vi.spyOn(fixture.apiDb.operationSignal, "wait");
  const response = await fixture.app.request(`/v1/operations/${operationId}/events`, {
    method: "HEAD",
    headers: { authorization: `Bearer ${fixture.ours.apiKey}` },
  });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  // Whoever streams an operation that is not done waits for its next event.
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(wait).not.toHaveBeenCalled();
  const served = await fixture.app.request(`/v1/operations/${operationId}/events`, {
    headers: { authorization: `Bearer ${fixture.ours.apiKey}` },
  });
  await vi.waitUntil(() => wait.mock.calls.length > 0, 20_000);
  await served.body?.cancel();
  wait.mockRestore();
});
