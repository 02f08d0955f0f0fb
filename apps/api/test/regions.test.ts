import { describe, expect, test } from "vitest";
import { apiFixture, call, FakePlanner } from "./fixture.ts";

const planner = new FakePlanner();
const drivers = (localAvailable: boolean) => ({
  ...{ local: planner, awsPlanner: planner },
  ...{ localAvailable, awsRegion: "eu-central-1" as const },
});

describe("a control plane on AWS", () => {
  const fixture = apiFixture({ drivers: drivers(false) });
  const create = (body: object, path = "/v1/clusters") =>
    call(fixture.app, "POST", path, { apiKey: fixture.ours.apiKey, body });

  test.each(["/v1/clusters", "/v1/clusters?validate_only=true"])(
    "%s needs a region, and takes none on a machine that runs no brokers",
    async (path) => {
      const absent = await create({ name: "nowhere" }, path);
      expect(absent.status).toBe(400);
      expect(absent.body.errors).toMatchObject([{ pointer: "/region", code: "required" }]);
      const local = await create({ name: "here", region: "local" }, path);
      expect(local.status).toBe(422);
      expect(local.body).toMatchObject({
        code: "region_unavailable",
        errors: [{ pointer: "/region" }],
      });
    },
  );

  test("creates clusters in its own region only, and plans them in any", async () => {
    const elsewhere = { name: "elsewhere", region: "eu-west-1", size: "small" };
    const refused = await create(elsewhere);
    expect(refused.status).toBe(422);
    expect(refused.body).toMatchObject({
      code: "region_unavailable",
      detail: "This installation creates clusters on AWS in eu-central-1 only.",
      errors: [{ pointer: "/region", code: "unavailable", message: "must be eu-central-1" }],
    });
    expect((await create(elsewhere, "/v1/clusters?validate_only=true")).status).toBe(200);
    expect((await create({ ...elsewhere, region: "eu-central-1" })).status).toBe(202);
  });

  test("says so in the list of regions", async () => {
    const { apiKey } = fixture.ours;
    const { body } = await call(fixture.app, "GET", "/v1/regions", { apiKey });
    const available = body.items.filter((region: { available: boolean }) => region.available);
    expect(available.map(({ id }: { id: string }) => id)).toEqual(["eu-central-1"]);
  });
});

describe("clusters on AWS", () => {
  const fixture = apiFixture({ drivers: drivers(true) });
  const made = async (body: object, apiKey = fixture.ours.apiKey): Promise<string> => {
    const answer = await call(fixture.app, "POST", "/v1/clusters", {
      apiKey,
      body: { region: "eu-central-1", ...body },
    });
    expect(answer.status).toBe(202);
    return answer.body.spec.network.cidr;
  };

  test("keep their plaintext listener: they have no other", async () => {
    const { apiKey } = fixture.ours;
    const body = { name: "orders", region: "eu-central-1", plaintext_listener: false };
    for (const path of ["/v1/clusters", "/v1/clusters?validate_only=true"]) {
      const refused = await call(fixture.app, "POST", path, { apiKey, body });
      expect(refused.status, path).toBe(400);
      expect(refused.body.errors).toEqual([
        {
          pointer: "/plaintext_listener",
          code: "not_applicable",
          message: "can be false in the region local only",
        },
      ]);
    }
    const preview = await call(fixture.app, "POST", "/v1/clusters?validate_only=true", {
      ...{ apiKey, body: { ...body, plaintext_listener: true } },
    });
    expect(preview.status).toBe(200);
  });

  test("have networks that do not overlap within an organization, also when clusters are created at once", async () => {
    const first = await Promise.all(["a", "b", "c", "d"].map((name) => made({ name })));
    expect(first.sort()).toEqual(["10.40.0.0/16", "10.41.0.0/16", "10.42.0.0/16", "10.43.0.0/16"]);
    expect(await made({ name: "e", network: { cidr: "10.44.0.0/20" } })).toBe("10.44.0.0/20");
    expect(await made({ name: "f" })).toBe("10.45.0.0/16");
    expect(await made({ name: "g" }, fixture.theirs.apiKey)).toBe("10.40.0.0/16");
    const preview = await call(fixture.app, "POST", "/v1/clusters?validate_only=true", {
      apiKey: fixture.ours.apiKey,
      body: { name: "h", region: "eu-central-1" },
    });
    expect(preview.status).toBe(200);
    expect(await made({ name: "h" })).toBe("10.46.0.0/16");
  });
});
