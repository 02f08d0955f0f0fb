import { expect, test } from "vitest";
import { apiFixture, call, impersonate, keyOfRole, platformOperator } from "./fixture.ts";

/** So slow that nothing flows back during a test. */
const perSecond = 0.001;
const fixture = apiFixture({
  rateLimit: true,
  requestPolicies: {
    address: { capacity: 40, perSecond },
    caller: { capacity: 10, perSecond },
    organization: { capacity: 25, perSecond },
  },
});

function me(apiKey: string | undefined, address: string, path = "/v1/me") {
  return call(fixture.app, "GET", path, {
    ...(apiKey !== undefined && { apiKey }),
    headers: { "x-forwarded-for": address },
  });
}

test("every answer says what is left, and the one beyond it when to come back", async () => {
  const { ours, theirs } = fixture;
  const first = await me(ours.apiKey, "203.0.113.1");
  expect(first.status).toBe(200);
  expect(first.headers.get("ratelimit")).toMatch(/^"caller";r=9;t=\d+$/);
  expect(first.headers.get("ratelimit-policy")).toBe(
    '"caller";q=10;w=10000, "organization";q=25;w=25000',
  );
  for (let sent = 1; sent < 10; sent += 1) {
    expect((await me(ours.apiKey, "203.0.113.1")).status).toBe(200);
  }
  const refused = await me(ours.apiKey, "203.0.113.1");
  expect(refused.status).toBe(429);
  expect(refused.headers.get("content-type")).toBe("application/problem+json");
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(900);
  expect(refused.headers.get("ratelimit")).toMatch(/^"caller";r=0;t=\d+$/);
  expect(refused.body).toMatchObject({
    ...{ code: "rate_limited", retryable: true },
    detail: "Too many requests from this user or API key. The limit is 0.001 per second.",
  });
  expect((await me(theirs.apiKey, "203.0.113.1")).status).toBe(200);
});

test.each([",", "%2C", "%2c"])(
  "each procedure of a tRPC request counts, joined by %s",
  async (comma) => {
    const viewer = await keyOfRole(fixture.db, fixture.theirs, "viewer");
    const names = Array.from({ length: 8 }, () => "region.list").join(",");
    const input = encodeURIComponent(
      JSON.stringify(Object.fromEntries(names.split(",").map((_, at) => [at, { json: {} }]))),
    );
    const path = `/trpc/${names.replaceAll(",", comma)}?batch=1&input=${input}`;
    expect((await me(viewer, "203.0.113.2", path)).status).toBe(200);
    const second = await me(viewer, "203.0.113.2", path);
    expect(second.status).toBe(429);
    expect(second.headers.get("retry-after")).not.toBeNull();
  },
);

test("an organization's keys share its limit", async () => {
  const { db, theirs } = fixture;
  const statuses: number[] = [];
  for (let key = 0; key < 4; key += 1) {
    const apiKey = await keyOfRole(db, theirs, "viewer");
    for (let sent = 0; sent < 9; sent += 1) {
      statuses.push((await me(apiKey, "203.0.113.3")).status);
    }
  }
  expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(25);
  expect(statuses.at(-1)).toBe(429);
});

test("a platform operator's requests are counted together, whomever they impersonate", async () => {
  const operator = await platformOperator(fixture);
  const headers = { cookie: operator.cookie };
  const statuses: number[] = [];
  for (let begun = 0; begun < 2; begun += 1) {
    statuses.push((await impersonate(fixture, operator)).status);
    for (let sent = 0; sent < 4; sent += 1) {
      statuses.push((await call(fixture.app, "GET", "/v1/me", { headers })).status);
    }
  }
  expect(statuses).toEqual([201, 200, 200, 200, 200, 201, 200, 200, 200, 200]);
  for (const path of ["/v1/me", "/api/platform/organizations"]) {
    expect((await call(fixture.app, "GET", path, { headers })).status).toBe(429);
  }
});

test("an address without credentials is refused before anybody looks for them", async () => {
  const statuses: number[] = [];
  for (let sent = 0; sent < 41; sent += 1) {
    // Every address of an IPv6 network is the same client.
    statuses.push((await me(undefined, `2001:db8::${sent.toString(16)}`)).status);
  }
  expect(new Set(statuses.slice(0, 40))).toEqual(new Set([401]));
  expect(statuses.at(-1)).toBe(429);
  expect((await me(undefined, "2001:db8:0:1::1")).status).toBe(401);
});
