import type { ClusterProvider, OperationId, OrganizationId } from "@millrace/domain";
import { pino } from "pino";
import { afterEach, expect, test, vi } from "vitest";
import { OperationRunner, SLOTS } from "./operation-runner.ts";

interface Waiting {
  readonly provider: ClusterProvider;
  readonly organizationId: OrganizationId;
}

/** Operations as the journal knows them, and those that were begun and never end by themselves. */
const waiting = new Map<OperationId, Waiting>();
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
      fleet: {
        journal: {
          providerOf: async (id) => waiting.get(id)?.provider,
          unclaimed: async (limit, provider) =>
            [...waiting]
              .filter(([, each]) => each.provider === provider)
              .map(([id, { organizationId }]) => ({ id, organizationId }))
              .slice(0, limit),
        },
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

const asked = (id: OperationId, provider: ClusterProvider, organization = "one") =>
  waiting.set(id, { provider, organizationId: `org_${organization}` as OrganizationId });
const begunAt = (provider: ClusterProvider) => begun.filter((id) => id.includes(provider)).length;

test("any number of operations on AWS leaves the local slots free", async () => {
  for (const [index, id] of ids("aws", 40).entries()) asked(id, "aws", `${index}`);
  await start();
  await vi.waitFor(() => expect(begunAt("aws")).toBe(SLOTS.aws));
  for (const id of ids("local", SLOTS.local)) asked(id, "local");
  for (const id of ids("local", SLOTS.local)) void deliver(id);
  await vi.waitFor(() => expect(begunAt("local")).toBe(SLOTS.local));
  expect(begunAt("aws")).toBe(SLOTS.aws);
});

test("an organization with many clusters leaves slots for others", async () => {
  for (const id of ids("aws", 20)) asked(id, "aws", "many");
  await start();
  await vi.waitFor(() => expect(begunAt("aws")).toBe(SLOTS.aws / 2));
  for (const organization of ["a", "b", "c", "d"]) {
    const theirs = Array.from({ length: 9 }, (_, n) => `op_aws_${organization}${n}` as OperationId);
    for (const id of theirs) asked(id, "aws", organization);
    await deliver(theirs[0]!);
    expect(begun).toContain(theirs[0]);
  }
  expect(begunAt("aws")).toBeLessThanOrEqual(SLOTS.aws);
});

test("a delivery does not jump the queue or block it", async () => {
  for (const [index, id] of ids("aws", SLOTS.aws).entries()) asked(id, "aws", `${index}`);
  await start();
  await vi.waitFor(() => expect(begunAt("aws")).toBe(SLOTS.aws));
  const late = "op_aws_late" as OperationId;
  asked(late, "aws", "late");
  await deliver(late);
  expect(begun).not.toContain(late);
  expect(waiting.has(late)).toBe(true);
});
