import { contracts } from "@millrace/contract";
import { describe, expect, test } from "vitest";
import { apiFixture, call, hasBody, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

describe.each(contracts)("$method $path", (contract) => {
  const path = contract.path.replaceAll(/\{\w+\}/g, "x");

  test("a query field that it does not have is named", async () => {
    const { app, ours } = fixture;
    const body = hasBody(contract) ? { body: {} } : {};
    const answer = await call(app, contract.method, `${path}?no_such=1`, {
      apiKey: ours.apiKey,
      ...body,
    });
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({ code: "validation_failed", retryable: false });
    expect(answer.body.errors).toContainEqual(
      expect.objectContaining({ pointer: "/no_such", code: "unknown_field" }),
    );
  });
});

describe.each(contracts.filter(hasBody))("$method $path", (contract) => {
  const path = contract.path.replaceAll(/\{\w+\}/g, "x");

  test("a body field that it does not have is named, also one of the path", async () => {
    for (const field of ["no_such", "a/b", ...Object.keys(contract.params)]) {
      const { apiKey } = fixture.ours;
      const body = { name: "n", [field]: "x" };
      const answer = await call(fixture.app, contract.method, path, { apiKey, body });
      expect(answer.status).toBe(400);
      const pointer = `/${field.replace("/", "~1")}`;
      expect(answer.body.errors).toContainEqual(expect.objectContaining({ pointer }));
    }
  });

  test.each(["", "{", "[]", "null", '"text"', "17"])("%j is no body", async (text) => {
    const response = await fixture.app.request(path, {
      method: contract.method,
      headers: {
        authorization: `Bearer ${fixture.ours.apiKey}`,
        "content-type": "application/json",
      },
      body: text,
    });
    expect(response.status).toBe(400);
  });

  test("a form is no body: other sites' pages can send one", async () => {
    const response = await fixture.app.request(path, {
      method: contract.method,
      headers: {
        authorization: `Bearer ${fixture.ours.apiKey}`,
        "content-type": "text/plain",
      },
      body: '{"name":"n"}',
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      detail: "The body must be JSON, with Content-Type: application/json.",
      errors: [{ message: "must be JSON, with Content-Type: application/json" }],
    });
  });
});

test("a body that is not UTF-8 is refused over REST and over tRPC, and nothing is replaced in it", async () => {
  const { app, ours } = fixture;
  const headers = { authorization: `Bearer ${ours.apiKey}`, "content-type": "application/json" };
  const around = (start: string, end: string) =>
    Buffer.concat([Buffer.from(start), Buffer.from([0xff, 0xfe]), Buffer.from(end)]);
  const bodies = [
    ["/v1/environments", around('{"name":"', '"}')],
    ["/trpc/environment.create", around('{"json":{"name":"', '"}}')],
    [
      "/v1/clusters/x/topics/x/records",
      around('{"records":[{"value":{"encoding":"text","data":"', '"}}]}'),
    ],
  ] as const;
  for (const [path, body] of bodies) {
    const response = await app.request(path, { method: "POST", headers, body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ detail: "The body must be UTF-8." });
  }
});

test.each([
  [{ name: "Bad Name" }, "/name"],
  [{ name: "" }, "/name"],
  [{ name: 7 }, "/name"],
  [{}, "/name"],
  [{ name: "a", size: "galaxy" }, "/size"],
  [{ name: "a", region: "moon" }, "/region"],
  [{ name: "a", environment_id: "default" }, "/environment_id"],
  [{ name: "a", labels: { ok: 1 } }, "/labels/ok"],
  [{ name: "a", labels: { ok: "\u0000" } }, "/labels/ok"],
  [{ name: "a", labels: { ok: "\ud800" } }, "/labels/ok"],
])("a cluster %j is refused at %s", async (body, pointer) => {
  const { app, ours } = fixture;
  const answer = await call(app, "POST", "/v1/clusters", { apiKey: ours.apiKey, body });
  expect(answer.status).toBe(400);
  expect(answer.body.errors[0].pointer).toBe(pointer);
});

test.each([
  ["/v1/clusters?page_size=0", "/page_size"],
  ["/v1/clusters?page_size=1001", "/page_size"],
  ["/v1/clusters?page_size=many", "/page_size"],
  ["/v1/clusters?page_size=1&page_size=2", "/page_size"],
  ["/v1/clusters?page_token=zzzz", "/page_token"],
  ["/v1/audit-events?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", "/from"],
  ["/v1/audit-events/export?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", "/from"],
  ["/v1/operations/op_x?wait=1h", "/wait"],
  ["/v1/operations/op_x?wait=99s", "/wait"],
])("GET %s is refused at %s", async (path, pointer) => {
  const answer = await call(fixture.app, "GET", path, { apiKey: fixture.ours.apiKey });
  expect(answer.status).toBe(400);
  expect(answer.body.errors[0].pointer).toBe(pointer);
});

let metricsCluster: { readonly id: string } | undefined;

test.each([
  ["from=0&to=999999999999999", "/from"],
  ["from=0000-01-01T00:00:00Z&to=0000-01-01T00:01:00Z", "/from"],
  [`from=${Math.floor(Date.now() / 1_000) - 60}&to=${Math.floor(Date.now() / 1_000)}`, "/from"],
  [`from=${Math.floor(Date.now() / 1_000)}`, "/from"],
  [`from=${Date.now() + 3 * 86_400_000}&to=${Date.now() + 4 * 86_400_000}`, "/from"],
  [`from=${Date.now() - 60_000}&to=99999999999999`, "/to"],
  [`from=${Date.now() - 402 * 86_400_000}`, "/from"],
  ["step=999999", "/step"],
])("metrics of %s are refused at %s", async (query, pointer) => {
  const { app, db, ours } = fixture;
  metricsCluster ??= (await runningCluster(db, ours, "metrics-refused")).cluster;
  const path = `/v1/clusters/${metricsCluster.id}/metrics?${query}`;
  const answer = await call(app, "GET", path, { apiKey: ours.apiKey });
  expect(answer.status).toBe(400);
  const [{ pointer: at, message }] = answer.body.errors;
  expect(at).toBe(pointer);
  if (pointer !== "/step") expect(message).toMatch(/milliseconds/);
});

test("metrics of as long as they are kept are answered", async () => {
  const { app, db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "metrics-long");
  const query = `from=${Date.now() - 400 * 86_400_000}&to=${Date.now() + 86_400_000}`;
  const path = `/v1/clusters/${cluster.id}/metrics?${query}`;
  expect((await call(app, "GET", path, { apiKey: ours.apiKey })).status).toBe(200);
});

test("a key's name with a control character is refused, not a fault of ours", async () => {
  const body = { name: "a\u0000b" };
  const answer = await call(fixture.app, "POST", "/v1/api-keys", {
    apiKey: fixture.ours.apiKey,
    body,
  });
  expect(answer.status).toBe(400);
  expect(answer.body.errors[0].pointer).toBe("/name");
});

test("a huge body is refused before it is read whole", async () => {
  const body = { name: "n".repeat(2 * 1024 * 1024) };
  const answer = await call(fixture.app, "POST", "/v1/clusters", {
    apiKey: fixture.ours.apiKey,
    body,
  });
  expect(answer.status).toBe(413);
  expect(answer.body).toMatchObject({
    ...{ code: "payload_too_large", detail: "This request may have at most 1,048,576 bytes." },
  });
});

test("a route that does not exist says so in the same words as every error", async () => {
  const answer = await call(fixture.app, "GET", "/v1/nothing", { apiKey: fixture.ours.apiKey });
  expect(answer.status).toBe(404);
  expect(answer.headers.get("content-type")).toBe("application/problem+json");
  expect(answer.body.request_id).toBe(answer.headers.get("x-request-id"));
});

test("a request keeps the name that its sender gave it, if it is one", async () => {
  const named = await call(fixture.app, "GET", "/v1/me", {
    headers: { "x-request-id": "my-request-0001" },
  });
  expect(named.headers.get("x-request-id")).toBe("my-request-0001");
  expect(named.body.request_id).toBe("my-request-0001");
  const odd = await call(fixture.app, "GET", "/v1/me", { headers: { "x-request-id": "<script>" } });
  expect(odd.headers.get("x-request-id")).toMatch(/^req_/);
});

const AWS = { name: "a", region: "eu-west-1", size: "small" };

test.each([
  [{ name: "a", wal: { size_gib: 20 } }, "/wal"],
  [{ name: "a", network: { cidr: "10.0.0.0/16" } }, "/network"],
  [{ name: "a", storage: { kms_key_arn: null } }, "/storage"],
  [{ name: "a", zones: 3 }, "/zones"],
  [{ ...AWS, zones: 4 }, "/zones"],
  [{ ...AWS, brokers: 10 }, "/brokers"],
  [{ ...AWS, wal: { size_gib: 4 } }, "/wal/size_gib"],
  [{ ...AWS, wal: { iops: 90_000 } }, "/wal/iops"],
  [{ ...AWS, wal: { throughput_mibps: 1000 } }, "/wal/throughput_mibps"],
  [{ ...AWS, wal: { type: "io2", throughput_mibps: 500 } }, "/wal/throughput_mibps"],
  [{ ...AWS, wal: { colour: "red" } }, "/wal/colour"],
  [{ ...AWS, network: { cidr: "10.0.0.1/16" } }, "/network/cidr"],
  [{ ...AWS, network: { cidr: "10.0.0.0/8" } }, "/network/cidr"],
  [{ ...AWS, network: { vpc_id: "vpc-0123456789abcdef0" } }, "/network/subnet_ids"],
  [{ ...AWS, network: { subnet_ids: ["subnet-0123456789abcdef0"] } }, "/network/subnet_ids"],
  [{ ...AWS, network: { allowed_cidrs: ["10.0.0.0/33"] } }, "/network/allowed_cidrs/0"],
  [{ ...AWS, network: { allowed_principals: ["*"] } }, "/network/allowed_principals/0"],
  [
    { ...AWS, network: { allowed_principals: ["arn:aws:iam::111122223333:root"] } },
    "/network/allowed_principals",
  ],
  [
    {
      ...AWS,
      storage: {
        kms_key_arn: "arn:aws:kms:us-east-1:111122223333:key/1b2c3d4e-1111-2222-3333-444455556666",
      },
    },
    "/storage/kms_key_arn",
  ],
])("a cluster on AWS %j is refused at %s", async (body, pointer) => {
  const { app, ours, planner } = fixture;
  const asked = planner.asked.length;
  const path = "/v1/clusters?validate_only=true";
  const answer = await call(app, "POST", path, { apiKey: ours.apiKey, body });
  expect(answer.status).toBe(400);
  expect(answer.body.errors.map((error: { pointer: string }) => error.pointer)).toContain(pointer);
  expect(planner.asked).toHaveLength(asked);
});

test("a switch of the query is true or false", async () => {
  const { app, ours } = fixture;
  const body = { name: "a" };
  const answer = await call(app, "POST", "/v1/clusters?validate_only=yes", {
    apiKey: ours.apiKey,
    body,
  });
  expect(answer.status).toBe(400);
  expect(answer.body.errors[0].pointer).toBe("/validate_only");
});

test("JSON that nests too deep is refused over REST and over tRPC", async () => {
  const { app, ours } = fixture;
  const headers = { authorization: `Bearer ${ours.apiKey}`, "content-type": "application/json" };
  const body = `{"name":${"[".repeat(10_000)}${"]".repeat(10_000)}}`;
  for (const path of ["/v1/environments", "/trpc/environment.create"]) {
    const response = await app.request(path, { method: "POST", headers, body });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("nests deeper than 32 levels");
  }
  const input = encodeURIComponent(`{"json":${"[".repeat(100)}${"]".repeat(100)}}`);
  const query = await app.request(`/trpc/environment.list?input=${input}`, { headers });
  expect(query.status).toBe(400);
});

test("a NUL character, which the database cannot have, is no internal error", async () => {
  const { app, db, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "nul");
  const path = `/v1/clusters/${cluster.id}`;
  const ask = async (method: string, asked: string) =>
    (await call(app, method, asked, { apiKey: ours.apiKey })).status;
  expect(await ask("GET", `${path}/metrics?topic=a%00`)).toBe(400);
  expect(await ask("GET", `${path}/metrics?group=a%00`)).toBe(400);
  for (const field of ["actor_id", "method", "target_id"]) {
    expect(await ask("GET", `/v1/audit-events?${field}=%00`)).toBe(400);
  }
  expect(await ask("POST", `${path}/tuning/changes/tch_%00/revert`)).toBe(404);
});
