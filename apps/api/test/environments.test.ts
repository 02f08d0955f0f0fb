import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();
const PATH = "/v1/environments";

test("an environment is made, read, renamed and deleted", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const made = await call(app, "POST", PATH, { apiKey, body: { name: "  staging " } });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({ id: expect.stringMatching(/^env_/), name: "staging" });
  const path = `${PATH}/${made.body.id}`;
  expect((await call(app, "GET", path, { apiKey })).body).toEqual(made.body);
  const renamed = await call(app, "PATCH", path, { apiKey, body: { name: "test" } });
  expect(renamed.body).toEqual({ ...made.body, name: "test" });
  expect((await call(app, "PATCH", path, { apiKey, body: {} })).body).toEqual(renamed.body);
  expect((await call(app, "DELETE", path, { apiKey })).status).toBe(204);
  expect((await call(app, "GET", path, { apiKey })).status).toBe(404);
  expect((await call(app, "DELETE", path, { apiKey })).status).toBe(404);
  const again = await call(app, "POST", PATH, { apiKey, body: { name: "test" } });
  expect(again.status).toBe(201);
  expect(again.body.id).not.toBe(made.body.id);
});

test("a name that is taken is told with the environment that has it", async () => {
  const { app, ours } = fixture;
  const { apiKey, environment } = ours;
  const taken = await call(app, "POST", PATH, { apiKey, body: { name: "default" } });
  expect(taken.status).toBe(409);
  expect(taken.body).toMatchObject({
    code: "environment_name_taken",
    existing_id: environment.id,
    errors: [{ pointer: "/name" }],
  });
  const other = await call(app, "POST", PATH, { apiKey, body: { name: "other" } });
  const renamed = await call(app, "PATCH", `${PATH}/${other.body.id}`, {
    apiKey,
    body: { name: "default" },
  });
  expect(renamed.status).toBe(409);
  expect(renamed.body.existing_id).toBe(environment.id);
});

test("one that has clusters stays, and goes when they have gone", async () => {
  const { app, theirs } = fixture;
  const { apiKey } = theirs;
  const { cluster } = await runningCluster(fixture.db, theirs, "inhabitant");
  const db = fixture.db.tenant(theirs.organization.id);
  const path = `${PATH}/${theirs.environment.id}`;
  const refused = await call(app, "DELETE", path, { apiKey });
  expect(refused.status).toBe(409);
  expect(refused.body.code).toBe("environment_not_empty");
  for (const to of ["DELETING", "PENDING_PURGE"] as const) {
    await db.clusters.changePhase(cluster.id, { to });
    expect((await call(app, "DELETE", path, { apiKey })).status).toBe(409);
  }
  await db.clusters.changePhase(cluster.id, { to: "DELETING" });
  await db.clusters.changePhase(cluster.id, { to: "DELETED" });
  expect((await call(app, "DELETE", path, { apiKey })).status).toBe(204);
  const body = { name: "late", environment_id: theirs.environment.id };
  const late = await call(app, "POST", "/v1/clusters", { apiKey, body });
  expect(late.status).toBe(404);
});

test("a cluster and the end of its environment cannot cross", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  for (let round = 0; round < 8; round += 1) {
    const { body: made } = await call(app, "POST", PATH, { apiKey, body: { name: `r${round}` } });
    const [deleted, created] = await Promise.all([
      call(app, "DELETE", `${PATH}/${made.id}`, { apiKey }),
      call(app, "POST", "/v1/clusters", {
        apiKey,
        body: { name: `c${round}`, environment_id: made.id },
      }),
    ]);
    expect([
      [204, 404],
      [409, 202],
    ]).toContainEqual([deleted.status, created.status]);
  }
});
