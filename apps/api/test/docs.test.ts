import { contracts } from "@millrace/contract";
import { expect, test } from "vitest";
import { apiFixture, call } from "./fixture.ts";

const fixture = apiFixture({ rateLimit: true });

test("the OpenAPI document is served, and needs no credentials", async () => {
  const { status, body } = await call(fixture.app, "GET", "/v1/openapi.json");
  expect(status).toBe(200);
  for (const contract of contracts) {
    expect(body.paths[contract.path][contract.method.toLowerCase()].operationId).toBe(
      contract.name,
    );
  }
});

test("the document names the routes of Prometheus' HTTP API, which have no contract", async () => {
  const { body } = await call(fixture.app, "GET", "/v1/openapi.json");
  const [paragraph = ""] = /\*\*Prometheus' HTTP API\*\*.*?\n\n/s.exec(body.info.description) ?? [];
  const [base = "", ...routes] = [...paragraph.matchAll(/`([^`]+)`/g)].map((match) => match[1]);
  expect(routes).toHaveLength(7);
  for (const route of routes) {
    const path = `${base}${route}`.replaceAll(/\{\w+\}/g, "x");
    for (const method of ["GET", "POST"]) {
      expect((await call(fixture.app, method, path)).body.code).toBe("unauthenticated");
    }
  }
});

test("the reference page loads everything from this server", async () => {
  const page = await call(fixture.app, "GET", "/docs");
  expect(page.status).toBe(200);
  expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
  const sources = [...String(page.body).matchAll(/src="([^"]+)"/g)].map((match) => match[1] ?? "");
  expect(sources.length).toBeGreaterThan(0);
  for (const source of sources) {
    expect(source).toMatch(/^\/docs\//);
    const script = await call(fixture.app, "GET", source);
    expect(script.headers.get("content-type")).toContain("javascript");
    expect(String(script.body).length).toBeGreaterThan(100);
  }
});

test("the server is healthy while its database answers", async () => {
  const { status, body } = await call(fixture.app, "GET", "/healthz");
  expect(status).toBe(200);
  expect(body).toEqual({ status: "ok" });
});

test("guessing passwords comes to an end", async () => {
  const statuses: number[] = [];
  for (let tries = 0; tries < 25 && statuses.at(-1) !== 429; tries += 1) {
    const answer = await call(fixture.app, "POST", "/api/auth/sign-in/email", {
      body: { email: "ours@example.com", password: `wrong guess ${tries}` },
    });
    statuses.push(answer.status);
  }
  expect(statuses.at(-1)).toBe(429);
  expect(statuses.filter((status) => status === 401)).toHaveLength(20);
});
