import { bootstrapServers, type Cluster, TUNING_KNOBS } from "@millrace/domain";
import { beforeEach, describe, expect, test } from "vitest";
import { type Answer, apiFixture, call, keyOfRole, runningCluster, sessionOf } from "./fixture.ts";

const MIB = 1024 ** 2;
const fixture = apiFixture();
let cluster: Cluster;
let address: string;
let clusters = 0;

beforeEach(async () => {
  clusters += 1;
  ({ cluster } = await runningCluster(fixture.db, fixture.ours, `tuned-${clusters}`));
  address = bootstrapServers(cluster) ?? "";
});

function get(path = "", apiKey = fixture.ours.apiKey): Promise<Answer> {
  return call(fixture.app, "GET", `/v1/clusters/${cluster.id}/tuning${path}`, { apiKey });
}

function patch(body: object, options: { query?: string; ifMatch?: string; apiKey?: string } = {}) {
  const path = `/v1/clusters/${cluster.id}/tuning${options.query ?? ""}`;
  return call(fixture.app, "PATCH", path, {
    apiKey: options.apiKey ?? fixture.ours.apiKey,
    body,
    ...(options.ifMatch !== undefined && { headers: { "if-match": options.ifMatch } }),
  });
}

/** What the broker has. */
const atBroker = (name: string) => fixture.kafka.settingsOf(address).get(name);

test("an untouched cluster shows every knob with value, default, bounds and reason", async () => {
  const { status, body, headers } = await get();
  expect(status).toBe(200);
  for (const knob of TUNING_KNOBS) {
    const { value, default: standard, min, max, reason } = body[knob];
    expect(value).toBe(standard);
    expect(min).toBeLessThan(max);
    expect(reason).toMatch(/maximum /);
    expect(body[knob]).toMatchObject({ applied: true, source: "default" });
  }
  expect(body.block_cache_bytes.value).toBe(128 * MIB);
  expect(body.ingress_baseline_bytes_per_second.value).toBe(0);
  expect(body).toMatchObject({ applied: true, problem: null, metadata: { version: 0 } });
  expect(headers.get("etag")).toBe(body.metadata.etag);
});

test("a change is at the broker when it is answered, and in the history", async () => {
  const answer = await patch({
    block_cache_bytes: 64 * MIB,
    egress_baseline_bytes_per_second: 2e7,
  });
  expect(answer.status).toBe(200);
  expect(answer.body).toMatchObject({
    applied: true,
    metadata: { version: 1 },
    block_cache_bytes: { value: 64 * MIB, default: 128 * MIB, applied: true, source: "tuning" },
  });
  expect(atBroker("s3.block.cache.size")).toBe(String(64 * MIB));
  expect(atBroker("s3.network.egress.baseline.bandwidth")).toBe("20000000");
  expect((await get()).body).toEqual(answer.body);
  const { body } = await get("/history");
  expect(body.items).toMatchObject([
    {
      version: 1,
      result: "applied",
      principal: { kind: "api_key", id: expect.stringMatching(/^key_/), name: expect.any(String) },
      changes: [
        { field: "block_cache_bytes", from: 128 * MIB, to: 64 * MIB, to_default: false },
        { field: "egress_baseline_bytes_per_second", from: 0, to: 20_000_000 },
      ],
    },
  ]);
  expect(body.items[0].principal.name).not.toBe("");
});

test("null is the default again, at the broker too", async () => {
  await patch({ prefetch_max_bytes: MIB });
  const { body } = await patch({ prefetch_max_bytes: null });
  expect(body.prefetch_max_bytes).toMatchObject({ value: 32 * MIB, source: "default" });
  expect(atBroker("s3.prefetch.max.bytes")).toBe(String(32 * MIB));
  const [last] = (await get("/history")).body.items;
  expect(last.changes).toEqual([
    { field: "prefetch_max_bytes", from: MIB, to: 32 * MIB, to_default: true },
  ]);
});

test("a decimal string is as good as a number, and a merge patch may say that it is one", async () => {
  const response = await fixture.app.request(`/v1/clusters/${cluster.id}/tuning`, {
    method: "PATCH",
    headers: {
      authorization: `Bearer ${fixture.ours.apiKey}`,
      "content-type": "application/merge-patch+json",
    },
    body: JSON.stringify({ prefetch_max_bytes: "2097152" }),
  });
  expect(response.status).toBe(200);
  expect((await get()).body.prefetch_max_bytes.value).toBe(2 * MIB);
});

test("a change that changes nothing is no change", async () => {
  expect((await patch({})).body.metadata.version).toBe(0);
  expect((await get("/history")).body.items).toEqual([]);
  await patch({ block_cache_bytes: 64 * MIB });
  expect((await patch({ block_cache_bytes: 64 * MIB })).body.metadata.version).toBe(1);
  expect((await get("/history")).body.items).toHaveLength(1);
});

test("what is asked for as it is already is meant to stay so", async () => {
  const pinned = await patch({ block_cache_bytes: 128 * MIB });
  expect(pinned.body).toMatchObject({
    metadata: { version: 1 },
    block_cache_bytes: { value: 128 * MIB, source: "tuning", applied: true },
  });
  expect((await patch({ block_cache_bytes: 128 * MIB })).body.metadata.version).toBe(1);
  expect((await get("/history")).body.items[0].changes).toEqual([
    { field: "block_cache_bytes", from: 128 * MIB, to: 128 * MIB, to_default: false },
  ]);
  fixture.kafka.settingsOf(address).set("s3.block.cache.size", String(100 * MIB));
  expect((await get()).body.block_cache_bytes).toMatchObject({ value: 128 * MIB, applied: false });
  const free = await patch({ block_cache_bytes: null });
  expect(free.body.block_cache_bytes).toMatchObject({ value: 128 * MIB, source: "default" });
});

describe("a refused value", () => {
  test.each([
    ["below its least", { block_cache_bytes: 4_096 }, "/block_cache_bytes", "too_small"],
    ["negative", { wal_cache_bytes: -1 }, "/wal_cache_bytes", "too_small"],
    ["above its most", { block_cache_bytes: 1e12 }, "/block_cache_bytes", "too_large"],
    ["huge", { upload_threshold_bytes: 1e300 }, "/upload_threshold_bytes", "too_large"],
    ["not whole", { prefetch_max_bytes: MIB + 0.5 }, "/prefetch_max_bytes", "not_whole"],
    [
      "a baseline that lets nothing pass",
      { ingress_baseline_bytes_per_second: 1 },
      "/ingress_baseline_bytes_per_second",
      "too_small",
    ],
    [
      "one that does not fit to another",
      { upload_threshold_bytes: 128 * MIB, wal_cache_bytes: 100 * MIB },
      "/wal_cache_bytes",
      "too_small",
    ],
  ])("%s", async (_, body, pointer, code) => {
    for (const query of ["", "?validate_only=true"]) {
      const answer = await patch(body, { query });
      expect(answer.status).toBe(422);
      expect(answer.headers.get("content-type")).toBe("application/problem+json");
      expect(answer.body).toMatchObject({ code: "tuning_refused", retryable: false });
      expect(answer.body.errors[0]).toMatchObject({ pointer, code });
      const [words, isAboutBounds] = [answer.body.errors[0].message, code !== "not_whole"];
      expect(words).toMatch(/^must be .*, not .*\./s);
      expect(/\. (Minimum|0 = )/.test(words)).toBe(isAboutBounds);
      expect("remedy" in answer.body).toBe(isAboutBounds);
    }
    expect((await get()).body.metadata.version).toBe(0);
  });

  test("of one field keeps the others of the same request out too", async () => {
    const answer = await patch({ prefetch_max_bytes: MIB, block_cache_bytes: 1 });
    expect(answer.status).toBe(422);
    expect((await get()).body.prefetch_max_bytes.value).toBe(32 * MIB);
  });

  test.each([
    [{ block_cache_bytes: "lots" }, "/block_cache_bytes"],
    [{ block_cache_bytes: true }, "/block_cache_bytes"],
    [{ block_cache_bytes: {} }, "/block_cache_bytes"],
    [{ cache_bytes: 1 }, "/cache_bytes"],
  ])("%j is no tuning at all", async (body, pointer) => {
    const answer = await patch(body);
    expect(answer.status).toBe(400);
    expect(answer.body.errors[0].pointer).toBe(pointer);
  });

  test("by the broker is answered with its words, and stored nowhere", async () => {
    const said = "s3.wal.cache.size: 300 MiB is more than 80 % of the machine's memory of 256 MiB";
    fixture.kafka.refusals.set(address, said);
    const body = { prefetch_max_bytes: MIB, wal_cache_bytes: 300 * MIB };
    for (const query of ["?validate_only=true", ""]) {
      const answer = await patch(body, { query });
      expect(answer.status).toBe(422);
      expect(answer.body.errors).toMatchObject([
        { pointer: "/wal_cache_bytes", code: "refused_by_broker" },
      ]);
      expect(answer.body.errors[0].message).toContain(said);
    }
    expect((await get()).body).toMatchObject({ metadata: { version: 0 }, problem: null });
    expect((await get("/history")).body.items).toEqual([]);
  });
});

test("validate_only says what would be, and changes nothing", async () => {
  const answer = await patch({ wal_cache_bytes: 200 * MIB }, { query: "?validate_only=true" });
  expect(answer.status).toBe(200);
  expect(answer.body.wal_cache_bytes).toMatchObject({ value: 200 * MIB, applied: false });
  // What is left of the memory for the other cache follows.
  expect(answer.body.block_cache_bytes.max).toBe((768 - 200) * MIB);
  expect(atBroker("s3.wal.cache.size")).toBe(String(256 * MIB));
  expect((await get()).body).toMatchObject({
    metadata: { version: 0 },
    wal_cache_bytes: { value: 256 * MIB },
  });
  expect((await get("/history")).body.items).toEqual([]);
  expect((await patch({}, { query: "?validate_only=maybe" })).status).toBe(400);
});

describe("the entity tag", () => {
  test("of a state that has passed refuses the change", async () => {
    const { etag } = (await get()).body.metadata;
    expect((await patch({ prefetch_max_bytes: MIB }, { ifMatch: etag })).status).toBe(200);
    const late = await patch({ prefetch_max_bytes: 2 * MIB }, { ifMatch: etag });
    expect(late.status).toBe(412);
    expect(late.body.code).toBe("precondition_failed");
    expect((await patch({ prefetch_max_bytes: 2 * MIB }, { ifMatch: "*" })).status).toBe(200);
    expect((await patch({ prefetch_max_bytes: 3 * MIB }, { ifMatch: '"7"' })).status).toBe(412);
  });

  test("tells a reader that nothing has changed, and not when the broker has fallen silent", async () => {
    const { etag } = (await get()).body.metadata;
    const path = `/v1/clusters/${cluster.id}/tuning`;
    const again = () =>
      call(fixture.app, "GET", path, {
        apiKey: fixture.ours.apiKey,
        headers: { "if-none-match": etag },
      });
    expect((await again()).status).toBe(304);
    fixture.kafka.down.add(address);
    expect((await again()).status).toBe(200);
    // The overrides are the same: what was decided on them still goes.
    expect((await patch({ prefetch_max_bytes: MIB }, { ifMatch: etag })).status).toBe(200);
  });
});

test("of many changes at once each is made on the one before, and none is lost", async () => {
  const sizes = Array.from({ length: 8 }, (_, index) => (index + 1) * MIB);
  const answers = await Promise.all(sizes.map((size) => patch({ prefetch_max_bytes: size })));
  expect(answers.map((answer) => answer.status)).toEqual(sizes.map(() => 200));
  const { body } = await get("/history?page_size=3");
  const rest = await get(`/history?page_size=100&page_token=${body.next_page_token}`);
  const items = [...body.items, ...rest.body.items];
  expect(items.map((item) => item.version)).toEqual([8, 7, 6, 5, 4, 3, 2, 1]);
  for (const [index, item] of items.entries()) {
    const before = items[index + 1];
    if (before) expect(item.changes[0].from).toBe(before.changes[0].to);
  }
  const { value } = (await get()).body.prefetch_max_bytes;
  expect(items[0].changes[0].to).toBe(value);
  expect(atBroker("s3.prefetch.max.bytes")).toBe(String(value));
});

test("a broker that is down gets its tuning later", async () => {
  fixture.kafka.down.add(address);
  const answer = await patch({ block_cache_bytes: 64 * MIB });
  expect(answer.status).toBe(200);
  expect(answer.body).toMatchObject({ applied: false, metadata: { version: 1 } });
  expect(answer.body.block_cache_bytes).toMatchObject({ value: 64 * MIB, applied: false });
  expect((await get("/history")).body.items[0].result).toBe("pending");
});

test("a setting that was changed at the broker shows as such, until it is asked for here", async () => {
  fixture.kafka.settingsOf(address).set("s3.block.cache.size", String(100 * MIB));
  expect((await get()).body.block_cache_bytes).toMatchObject({
    value: 100 * MIB,
    default: 128 * MIB,
    source: "broker",
    applied: true,
  });
  const { body } = await patch({ block_cache_bytes: null });
  expect(body.block_cache_bytes).toMatchObject({ value: 128 * MIB, source: "default" });
  expect(atBroker("s3.block.cache.size")).toBe(String(128 * MIB));
});

test("bounds of the broker's machine go before those of the size", async () => {
  const reason = "the machine has 512 MiB";
  fixture.kafka.bounds.set("s3.block.cache.size", { min: 0, max: 150 * MIB, reason });
  try {
    expect((await get()).body.block_cache_bytes).toMatchObject({
      min: 16 * MIB,
      max: 150 * MIB,
      reason,
    });
  } finally {
    fixture.kafka.bounds.clear();
  }
});

test("a viewer may look and not touch, a member may do both", async () => {
  const viewer = await keyOfRole(fixture.db, fixture.ours, "viewer");
  expect((await get("", viewer)).status).toBe(200);
  expect((await get("/history", viewer)).status).toBe(200);
  const refused = await patch({ prefetch_max_bytes: MIB }, { apiKey: viewer });
  expect(refused.status).toBe(403);
  const member = await keyOfRole(fixture.db, fixture.ours, "developer");
  expect((await patch({ prefetch_max_bytes: MIB }, { apiKey: member })).status).toBe(200);
});

test("a person is named by the address that they sign in with", async () => {
  const { app, ours } = fixture;
  const { cookie } = await sessionOf(app, ours);
  await call(app, "PATCH", `/v1/clusters/${cluster.id}/tuning`, {
    headers: { cookie, origin: "http://localhost:3000" },
    body: { prefetch_max_bytes: MIB },
  });
  const [item] = (await get("/history")).body.items;
  expect(item.principal).toMatchObject({ kind: "user", name: ours.email });
});

describe("a cluster that is not running", () => {
  test("is tuned for when it will be", async () => {
    const { apiKey } = fixture.ours;
    const body = { name: `early-${clusters}` };
    const made = await call(fixture.app, "POST", "/v1/clusters", { apiKey, body });
    const path = `/v1/clusters/${made.body.metadata.id}/tuning`;
    const tuned = await call(fixture.app, "PATCH", path, {
      apiKey,
      body: { prefetch_max_bytes: MIB },
    });
    expect(tuned.status).toBe(200);
    expect(tuned.body).toMatchObject({ applied: false, prefetch_max_bytes: { value: MIB } });
  });

  test("and will not be again is not tuned", async () => {
    await fixture.db.clusters.changePhase(cluster.id, { to: "DELETING" });
    const answer = await patch({ prefetch_max_bytes: MIB });
    expect(answer.status).toBe(409);
    expect(answer.body.code).toBe("cluster_not_ready");
  });
});

describe("a revert", () => {
  const history = async () => (await get("/history")).body.items;
  const revert = (id: string, apiKey = fixture.ours.apiKey, headers = {}) =>
    call(fixture.app, "POST", `/v1/clusters/${cluster.id}/tuning/changes/${id}/revert`, {
      apiKey,
      headers,
    });

  test("restores what a change replaced, at the broker too, and the history names it", async () => {
    await patch({ block_cache_bytes: 64 * MIB });
    await patch({ block_cache_bytes: 96 * MIB, prefetch_max_bytes: MIB });
    const [second] = await history();
    const answer = await revert(second.id);
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      metadata: { version: 3 },
      block_cache_bytes: { value: 64 * MIB, source: "tuning", applied: true },
      prefetch_max_bytes: { value: 32 * MIB, source: "default", applied: true },
    });
    expect(atBroker("s3.block.cache.size")).toBe(String(64 * MIB));
    const [third] = await history();
    expect(third).toMatchObject({
      version: 3,
      reverts: { id: second.id, version: 2 },
      principal: { kind: "api_key" },
      changes: [
        { field: "block_cache_bytes", from: 96 * MIB, to: 64 * MIB, to_default: false },
        { field: "prefetch_max_bytes", from: MIB, to: 32 * MIB, to_default: true },
      ],
    });
    expect(second.reverts).toBeNull();
  });

  test("can itself be reverted, and a value pinned to the default is pinned again", async () => {
    await patch({ block_cache_bytes: 128 * MIB });
    await patch({ block_cache_bytes: null });
    const [second] = await history();
    expect((await revert(second.id)).body.block_cache_bytes.source).toBe("tuning");
    const [third] = await history();
    expect((await revert(third.id)).body.block_cache_bytes.source).toBe("default");
  });

  test("leaves later changes of other settings alone", async () => {
    await patch({ block_cache_bytes: 64 * MIB });
    const [first] = await history();
    await patch({ prefetch_max_bytes: MIB });
    const { body } = await revert(first.id);
    expect(body.block_cache_bytes.value).toBe(128 * MIB);
    expect(body.prefetch_max_bytes.value).toBe(MIB);
  });

  test("409: a later change touched the same setting, or has reverted it already", async () => {
    await patch({ block_cache_bytes: 64 * MIB });
    await patch({ block_cache_bytes: 32 * MIB });
    const [second, first] = await history();
    const blocked = await revert(first.id);
    expect(blocked.status).toBe(409);
    expect(blocked.body).toMatchObject({ code: "tuning_changed_since", retryable: false });
    expect(blocked.body.detail).toContain("Change 2 has changed block_cache_bytes");
    expect(blocked.body.remedy).toContain("Revert change 2 first");
    expect((await revert(second.id)).status).toBe(200);
    const again = await revert(second.id);
    expect(again.status).toBe(409);
    expect(again.body.detail).toContain("reverted by change 3 already");
    expect(await history()).toHaveLength(3);
  });

  test("of several at once, one takes effect", async () => {
    await patch({ block_cache_bytes: 64 * MIB });
    const [first] = await history();
    const answers = await Promise.all([1, 2, 3].map(() => revert(first.id)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    expect(await history()).toHaveLength(2);
  });

  test("repeated with its idempotency key answers the same and happens once", async () => {
    await patch({ block_cache_bytes: 64 * MIB });
    const [first] = await history();
    const headers = { "idempotency-key": `revert-${first.id}` };
    const answers = [
      await revert(first.id, fixture.ours.apiKey, headers),
      await revert(first.id, fixture.ours.apiKey, headers),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(answers[1]?.body).toEqual(answers[0]?.body);
    expect(await history()).toHaveLength(2);
  });

  test("404: an unknown change, and one of another cluster", async () => {
    await patch({ block_cache_bytes: 64 * MIB });
    const [change] = await history();
    expect((await revert("tch_00000000000000000000000000")).status).toBe(404);
    const other = await runningCluster(fixture.db, fixture.ours, `other-${clusters}`);
    const path = `/v1/clusters/${other.cluster.id}/tuning/changes/${change.id}/revert`;
    const answer = await call(fixture.app, "POST", path, { apiKey: fixture.ours.apiKey });
    expect(answer.status).toBe(404);
    expect(answer.body.detail).toContain("no tuning change");
  });

  test("403: whoever only reads the tuning", async () => {
    await patch({ block_cache_bytes: 64 * MIB });
    const [change] = await history();
    const viewer = await keyOfRole(fixture.db, fixture.ours, "viewer");
    expect((await revert(change.id, viewer)).status).toBe(403);
    expect(await history()).toHaveLength(1);
  });

  test("is in the audit log, with the tuning before and after", async () => {
    await patch({ block_cache_bytes: 64 * MIB });
    const [change] = await history();
    await revert(change.id);
    const path = `/v1/audit-events?target_id=${cluster.id}&method=tuning.revert`;
    const { body } = await call(fixture.app, "GET", path, { apiKey: fixture.ours.apiKey });
    expect(body.items).toMatchObject([
      {
        result: "success",
        target_id: cluster.id,
        request: { change_id: change.id },
        before: { tuning: { block_cache_bytes: 64 * MIB } },
        after: { tuning: { block_cache_bytes: null } },
      },
    ]);
  });
});
