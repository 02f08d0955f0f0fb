import { expect, test } from "vitest";
import { apiFixture, call } from "./fixture.ts";

const fixture = apiFixture();

async function get(path: string) {
  return (await call(fixture.app, "GET", path, { apiKey: fixture.ours.apiKey })).body;
}

test("regions say who runs them, and whether clusters can be made there", async () => {
  const { items } = await get("/v1/regions");
  expect(items[0]).toEqual({
    id: "local",
    title: "This machine",
    provider: "local",
    zones: [],
    available: true,
  });
  const ireland = items.find((region: { id: string }) => region.id === "eu-west-1");
  expect(ireland).toMatchObject({ provider: "aws", available: false });
  expect(ireland.zones).toEqual(["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
});

test("a size is what it is in the region, with its bounds and what it costs", async () => {
  const local = (await get("/v1/sizes")).items;
  expect(local.map((size: { id: string }) => size.id)).toEqual(["dev", "small", "medium"]);
  expect(local[0]).toMatchObject({ aws: null, cost: { total: 0 } });
  const aws = (await get("/v1/sizes?region=us-east-1")).items;
  expect(aws[1].aws).toMatchObject({
    instance_type: "m7g.large",
    wal: { type: "gp3", iops: 3000, throughput_mibps: 125 },
  });
  expect(aws[1].aws.wal_limits[0]).toMatchObject({
    type: "gp3",
    iops: { min: 3000, max: 16_000 },
    throughput_mibps: { min: 125, max: 1000 },
  });
  expect(aws[1].cost.total).toBeGreaterThan(50);
  expect(aws[2].cost.total).toBeGreaterThan(aws[1].cost.total);
});

test("versions name the one that new clusters get", async () => {
  const { items } = await get("/v1/versions");
  expect(items.filter((version: { default: boolean }) => version.default)).toHaveLength(1);
});

test("a key is read without its secret, until it is revoked", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const made = await call(app, "POST", "/v1/api-keys", { apiKey, body: { name: "ci" } });
  const path = `/v1/api-keys/${made.body.id}`;
  const { secret, ...shown } = made.body;
  const got = await call(app, "GET", path, { apiKey });
  expect(got.body).toEqual(shown);
  expect(JSON.stringify(got.body)).not.toContain(secret);
  await call(app, "DELETE", path, { apiKey });
  expect((await call(app, "GET", path, { apiKey })).status).toBe(404);
});
