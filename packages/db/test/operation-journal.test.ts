import {
  type ClusterProvider,
  OPERATION_LOG_EVENTS_MAX,
  type Operation,
  type OperationId,
} from "@millrace/domain";
import { expect, test } from "vitest";
import { LeaseLost } from "../src/index.ts";
import { databaseFixture, newCluster, newTenant, type Tenant } from "./fixture.ts";

const fixture = databaseFixture();
const LEASE_MS = 60_000;

type TenantOperation = Operation & { readonly db: Tenant["db"] };

async function newOperation(): Promise<TenantOperation> {
  const tenant = await newTenant(fixture.db);
  const { db } = tenant;
  const cluster = await newCluster(tenant);
  const operation = await db.operations.create({
    organizationId: tenant.organization.id,
    clusterId: cluster.id,
    kind: "cluster.create",
  });
  return { ...operation, db };
}

test("a cluster has one operation at a time, and the refusal names it", async () => {
  const operation = await newOperation();
  const { db } = operation;
  const again = { ...operation, kind: "cluster.delete" } as const;
  const request = {
    organizationId: again.organizationId,
    clusterId: again.clusterId,
    kind: again.kind,
  };
  await expect(db.operations.create(request)).rejects.toMatchObject({
    code: "cluster_busy",
    message: expect.stringContaining(operation.id),
  });
  const other = await newTenant(fixture.db);
  const racing = await newCluster(other);
  const race = await Promise.allSettled(
    [1, 2, 3].map(() =>
      other.db.operations.create({
        organizationId: racing.organizationId,
        clusterId: racing.id,
        kind: "cluster.delete",
      }),
    ),
  );
  expect(race.filter((outcome) => outcome.status === "fulfilled")).toHaveLength(1);
});

test("of many workers one claims, and the others find nothing", async () => {
  const { db, id } = await newOperation();
  const claims = await Promise.all(
    Array.from({ length: 6 }, (_, worker) => db.journal.claim(id, `w${worker}`, LEASE_MS)),
  );
  const won = claims.filter((claim) => claim !== undefined);
  expect(won).toHaveLength(1);
  expect(won[0]).toMatchObject({ phase: "RUNNING", attempt: 1 });
});

test("an expired lease can be taken over, and the zombie's writes hit nothing", async () => {
  const { db, id } = await newOperation();
  await db.journal.claim(id, "first", 1);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const zombie = { operationId: id, attempt: 1 };
  const second = await db.journal.claim(id, "second", LEASE_MS);
  expect(second?.attempt).toBe(2);

  const step = { name: "reserve_ports", state: "RUNNING" } as const;
  await expect(db.journal.recordStep(zombie, step)).rejects.toThrow(LeaseLost);
  await expect(db.journal.renew(zombie, LEASE_MS)).rejects.toThrow(LeaseLost);
  await expect(db.journal.complete(zombie, { phase: "FAILED" })).rejects.toThrow(LeaseLost);
  await expect(db.journal.hold(zombie)).rejects.toThrow(LeaseLost);
  await db.journal.release(zombie);
  expect(await db.journal.claim(id, "third", LEASE_MS)).toBeUndefined();

  const events = await db.operations.events(id, 0, 100);
  expect(events.map((event) => event.kind)).toEqual([
    "operation.created",
    "operation.claimed",
    "operation.claimed",
  ]);
});

test("a released operation is free at once; a finished one never again", async () => {
  const { db, id } = await newOperation();
  await db.journal.claim(id, "first", LEASE_MS);
  const unclaimed = async (provider: ClusterProvider) =>
    (await db.fleet.journal.unclaimed(100, provider)).map((each) => each.id);
  expect(await unclaimed("local")).not.toContain(id);
  const fence = { operationId: id, attempt: 1 };
  await db.journal.release(fence);
  await expect(db.journal.renew(fence, LEASE_MS)).rejects.toThrow(LeaseLost);
  expect(await unclaimed("local")).toContain(id);
  expect(await unclaimed("aws")).not.toContain(id);
  expect(await db.fleet.journal.providerOf(id)).toBe("local");
  await db.journal.claim(id, "second", LEASE_MS);
  await db.journal.complete({ operationId: id, attempt: 2 }, { phase: "SUCCEEDED" });
  expect(await db.journal.claim(id, "third", LEASE_MS)).toBeUndefined();
  expect(await unclaimed("local")).not.toContain(id);
});

test("organizations take turns, whoever asked first, most, or again and again", async () => {
  const [many, one] = [await newTenant(fixture.db), await newTenant(fixture.db)];
  const { db } = many;
  const ask = async (tenant: Tenant, name: string) => {
    const { id: clusterId } = await newCluster(tenant, name);
    const { id: organizationId } = tenant.organization;
    const { operations } = tenant.db;
    return (await operations.create({ organizationId, clusterId, kind: "cluster.create" })).id;
  };
  const first: OperationId[] = [];
  for (const name of ["a", "b", "c", "d", "e", "f"]) first.push(await ask(many, name));
  const [a, b, c, d, e, f] = first;
  const theirs = await ask(one, "a");
  const tenants = [many, one].map(({ organization }) => organization.id);
  const order = async () =>
    (await db.fleet.journal.unclaimed(1_000, "local"))
      .filter(({ organizationId }) => tenants.includes(organizationId))
      .map(({ id }) => id);
  expect(await order()).toEqual([a, theirs, b, c, d, e, f]);

  // Who holds two already comes after who holds none.
  for (const id of [a, b]) await db.journal.claim(id!, "w", LEASE_MS);
  expect(await order()).toEqual([theirs, c, d, e, f]);
  // A retry waits for approval again.
  await db.journal.complete({ operationId: a!, attempt: 1 }, { phase: "FAILED" });
  expect(await db.operations.reopen(a!)).toBe(true);
  expect(await order()).toEqual([theirs, c, d, e, f, a]);
  // A limit takes nobody's turn.
  await db.journal.release({ operationId: b!, attempt: 1 });
  const turns = await db.fleet.journal.unclaimed(1_000, "local");
  const at = turns.findIndex(({ id }) => id === theirs);
  expect(turns.slice(0, at).filter(({ organizationId }) => organizationId === tenants[0])).toEqual([
    { id: c, organizationId: tenants[0] },
  ]);
});

test("steps and events tell the story, with a dense seq", async () => {
  const { db, id, organizationId } = await newOperation();
  await db.journal.claim(id, "w", LEASE_MS);
  const fence = { operationId: id, attempt: 1 };
  await db.journal.recordStep(fence, { name: "reserve_ports", state: "RUNNING" });
  await db.journal.recordStep(fence, { name: "reserve_ports", state: "SUCCEEDED" });
  await db.journal.recordStep(fence, { name: "start_broker", state: "RUNNING" });
  const failure = { code: "internal", message: "no", step: "start_broker" } as const;
  await db.journal.recordStep(fence, { name: "start_broker", state: "FAILED", message: "no" });
  await db.journal.complete(fence, { phase: "FAILED", error: failure });

  const operation = await db.operations.get(organizationId, id);
  expect(operation).toMatchObject({ phase: "FAILED", done: true, error: failure });
  expect(operation?.steps.map((step) => [step.name, step.state, step.attempt])).toEqual([
    ["reserve_ports", "SUCCEEDED", 1],
    ["plan", "PENDING", 0],
    ["approve", "PENDING", 0],
    ["prepare_broker", "PENDING", 0],
    ["start_broker", "FAILED", 1],
    ["wait_until_healthy", "PENDING", 0],
    ["smoke_check", "PENDING", 0],
    ["create_user", "PENDING", 0],
    ["publish_endpoint", "PENDING", 0],
  ]);
  const events = await db.operations.events(id, 0, 100);
  expect(events.map((event) => event.seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(await db.operations.events(id, 5, 1)).toEqual([events[5]]);
});

test("readers are woken by an event that is committed", async () => {
  const { db, id } = await newOperation();
  // The first wait opens the LISTEN connection; only then is a wake-up certain.
  await db.operationSignal.wait(id, 500);
  const begun = Date.now();
  const woken = db.operationSignal.wait(id, 20_000);
  await db.journal.claim(id, "w", LEASE_MS);
  await woken;
  expect(Date.now() - begun).toBeLessThan(10_000);
});

test("the queue delivers what was committed and only that", async () => {
  const { db } = fixture;
  const kept = await newOperation();
  const undone = await newOperation();
  await kept.db.transaction((tx) => tx.deliver(kept.id));
  await expect(
    undone.db.transaction(async (tx) => {
      await tx.deliver(undone.id);
      throw new Error("changed my mind");
    }),
  ).rejects.toThrow("changed my mind");
  const delivered: string[] = [];
  await new Promise<void>((resolve) => {
    void db.queue.work(1, async (id) => {
      delivered.push(id);
      resolve();
    });
  });
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  expect(delivered).toEqual([kept.id]);
});

test("log lines are kept up to their bound, and the next one says so", async () => {
  const operation = await newOperation();
  const { db } = operation;
  const { id } = operation;
  const { attempt } = (await db.journal.claim(id, "w", LEASE_MS))!;
  const fence = { operationId: id, attempt };
  const line = { at: new Date(), level: "info", step: "apply", message: "made" } as const;
  await db.journal.log(fence, [{ ...line, address: "aws_vpc.main" }]);
  const [first] = (await db.operations.events(id, 0, 10)).filter(({ kind }) => kind === "log");
  expect(first).toMatchObject({ level: "info", address: "aws_vpc.main", message: "made" });
  for (let kept = 1; kept < OPERATION_LOG_EVENTS_MAX + 500; kept += 500) {
    await db.journal.log(fence, Array(500).fill(line));
  }
  await db.journal.log(fence, [line]);
  const events = await db.operations.events(id, 0, OPERATION_LOG_EVENTS_MAX * 2);
  const log = events.filter(({ kind }) => kind === "log");
  expect(log).toHaveLength(OPERATION_LOG_EVENTS_MAX + 1);
  expect(log.at(-1)).toMatchObject({ level: "warning" });
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  await expect(db.journal.log({ ...fence, attempt: attempt + 1 }, [line])).rejects.toThrow(
    LeaseLost,
  );
});
