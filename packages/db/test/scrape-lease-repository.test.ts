import type { ClusterId } from "@millrace/domain";
import { expect, test } from "vitest";
import { databaseFixture, newCluster, newTenant } from "./fixture.ts";
import { withClient } from "./tenant-rows.ts";

const fixture = databaseFixture();
const LEASE_MS = 60_000;

async function clusters(count: number): Promise<ClusterId[]> {
  const tenant = await newTenant(fixture.db);
  const ids: ClusterId[] = [];
  for (let index = 0; index < count; index += 1) {
    ids.push((await newCluster(tenant, `orders-${index}`)).id);
  }
  return ids;
}

async function claim(workerId: string, clusterIds: readonly ClusterId[], clustersMax = 100) {
  const { scrapeLeases } = fixture.db.fleet;
  const leases = await scrapeLeases.claim({ workerId, clusterIds, leaseMs: LEASE_MS, clustersMax });
  return leases.map(({ clusterId }) => clusterId).sort();
}

/** As if the leases of this worker had ended: the database's clock decides, and cannot be set. */
async function expire(workerId: string): Promise<void> {
  await withClient(fixture.url, async (owner) => {
    await owner.query("UPDATE scrape_lease SET lease_until = now() WHERE worker_id = $1", [
      workerId,
    ]);
  });
}

test("workers that claim at once share no cluster and leave none out", async () => {
  const ids = await clusters(12);
  const workers = ["w1", "w2", "w3", "w4"].map((name) => `${name}-${ids[0]}`);
  const claimed = await Promise.all(workers.map((worker) => claim(worker, ids, 5)));
  const rest = await Promise.all(workers.map((worker) => claim(worker, ids, 5)));
  expect(claimed.flat().length).toBeLessThanOrEqual(12);
  expect(rest.flat().sort()).toEqual(ids.toSorted());
  for (const [index, held] of rest.entries()) {
    expect(held.length).toBeLessThanOrEqual(5);
    expect(held).toEqual(expect.arrayContaining(claimed[index] ?? []));
  }
});

test("a lease is kept against others, taken over when it has ended, and not won back", async () => {
  const ids = await clusters(2);
  const [dead, alive] = [`dead-${ids[0]}`, `alive-${ids[0]}`];
  expect(await claim(dead, ids)).toEqual(ids.toSorted());
  expect(await claim(alive, ids)).toEqual([]);
  await expire(dead);
  expect(await claim(alive, ids)).toEqual(ids.toSorted());
  expect(await claim(dead, ids)).toEqual([]);
});

test("a worker that stops leaves its clusters at once", async () => {
  const ids = await clusters(1);
  const [first, second] = [`first-${ids[0]}`, `second-${ids[0]}`];
  await claim(first, ids);
  await fixture.db.fleet.scrapeLeases.release(first);
  expect(await claim(second, ids)).toEqual(ids);
});

test("a look at a cluster shows with its lease, and only its own tenant can look", async () => {
  const tenant = await newTenant(fixture.db);
  const { id } = await newCluster(tenant);
  const stranger = await newTenant(fixture.db);
  const watched = async () => {
    const request = { workerId: `w-${id}`, clusterIds: [id], leaseMs: LEASE_MS, clustersMax: 1 };
    const leases = await fixture.db.fleet.scrapeLeases.claim(request);
    return leases.map((lease) => lease.watched);
  };
  expect(await watched()).toEqual([false]);
  await stranger.db.scrapeLeases.watch(id);
  expect(await watched()).toEqual([false]);
  await tenant.db.scrapeLeases.watch(id);
  expect(await watched()).toEqual([true]);
});
