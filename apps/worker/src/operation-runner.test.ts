import type { ClusterProvider, OperationId } from "@millrace/domain";
import { pino } from "pino";
import { afterEach, expect, test, vi } from "vitest";
import { OperationRunner, SLOTS } from "./operation-runner.ts";

/** Operations as the journal knows them, and those that were begun and never end by themselves. */
const waiting = new Map<OperationId, ClusterProvider>();
const begun: OperationId[] = [];
let deliver: (id: OperationId) => Promise<void> = async () => {};
let runner: OperationRunner | undefined;

function ids(provider: ClusterProvider, count: number): OperationId[] {
  return Array.from({ length: count }, (_, index) => `op_${provider}_${index}` as OperationId);
}

async function start(): Promise<void> {
  runner = new OperationRunner({
    db: {
      queue: {
        work: async (_concurrency, handler) => {
          deliver = (id) => handler(id, new AbortController().signal);
        },
        stop: async () => {},
      },
      journal: {
        providerOf: async (id) => waiting.get(id),
        unclaimed: async (limit, provider) =>
          [...waiting].flatMap(([id, at]) => (at === provider ? [id] : [])).slice(0, limit),
      },
    },
    logger: pino({ level: "silent" }),
    runOperation: async (id, signal) => {
      waiting.delete(id);
      begun.push(id);
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    },
  });
  await runner.start();
}

afterEach(async () => {
  await runner?.stop();
  waiting.clear();
  begun.length = 0;
});

const begunAt = (provider: ClusterProvider) => begun.filter((id) => id.includes(provider)).length;

test("operations on AWS, however many, leave local ones their slots", async () => {
  for (const id of ids("aws", 40)) waiting.set(id, "aws");
  await start();
  await vi.waitFor(() => expect(begunAt("aws")).toBe(SLOTS.aws));
  for (const id of ids("local", SLOTS.local)) waiting.set(id, "local");
  for (const id of ids("local", SLOTS.local)) void deliver(id);
  await vi.waitFor(() => expect(begunAt("local")).toBe(SLOTS.local));
  expect(begunAt("aws")).toBe(SLOTS.aws);
});

test("a delivery that finds no slot free does not hold up the queue", async () => {
  for (const id of ids("aws", SLOTS.aws)) waiting.set(id, "aws");
  await start();
  await vi.waitFor(() => expect(begunAt("aws")).toBe(SLOTS.aws));
  const late = "op_aws_late" as OperationId;
  waiting.set(late, "aws");
  await deliver(late);
  expect(begun).not.toContain(late);
  expect(waiting.has(late)).toBe(true);
});
