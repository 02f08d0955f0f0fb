/** Two workers, one cluster: one of them reads its metrics, and the other one goes on when it is killed. */
import { expect, test } from "vitest";
import { BUSY_MS_MAX, eventually, installation } from "./fixture.ts";

const it = installation();

test("one of two workers reads a cluster, and the other one takes over when it is killed", async () => {
  const workers = [await it.startWorker(), await it.startWorker()];
  const { cluster, operation } = await it.requestCluster("measured");
  expect((await it.waitForOperation(cluster, operation.id)).phase).toBe("SUCCEEDED");
  const holder = () => it.db.scrapeLeases.holder(cluster.id);
  const first = await eventually(BUSY_MS_MAX, "a worker holds the lease", holder);
  const newest = async () => (await it.db.metrics.newest(cluster.id))?.at.getTime() ?? 0;
  await expect.poll(newest, { timeout: BUSY_MS_MAX }).toBeGreaterThan(0);

  // Workers are named host:pid:random.
  const reader = workers.find(({ child }) => first.split(":").includes(String(child.pid)));
  await reader?.kill();
  const killedAt = Date.now();
  const second = await eventually(BUSY_MS_MAX, "another worker holds the lease", async () => {
    const now = await holder();
    return now === first ? undefined : now;
  });
  const other = workers.find((each) => each !== reader);
  expect(second.split(":")).toContain(String(other?.child.pid));
  await expect.poll(newest, { timeout: BUSY_MS_MAX }).toBeGreaterThan(killedAt);
  // Nobody is told of a gap: the other worker continued within it.
  expect(await it.db.metrics.newest(cluster.id)).toMatchObject({ afterGap: false });
});
