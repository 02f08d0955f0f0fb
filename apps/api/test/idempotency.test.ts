import { createHash } from "node:crypto";
import { everyRow, runSql } from "@millrace/testkit";
import { expect, test } from "vitest";
import { apiFixture, call, keyOfRole } from "./fixture.ts";

const fixture = apiFixture();

function post(key: string, body: object, apiKey = fixture.ours.apiKey, path = "/v1/clusters") {
  return call(fixture.app, "POST", path, { apiKey, body, headers: { "idempotency-key": key } });
}

test("the same request again gets the first answer, and makes nothing", async () => {
  const first = await post("k1", { name: "once" });
  const second = await post("k1", { name: "once" });
  expect(first.status).toBe(202);
  expect(first.headers.get("idempotency-replayed")).toBeNull();
  expect(second.status).toBe(202);
  expect(second.body).toEqual(first.body);
  expect(second.headers.get("location")).toBe(first.headers.get("location"));
  expect(second.headers.get("idempotency-replayed")).toBe("true");
});

test("many at once make one cluster", async () => {
  const answers = await Promise.all(Array.from({ length: 6 }, () => post("k2", { name: "many" })));
  const accepted = answers.filter((answer) => answer.status === 202);
  const running = answers.filter((answer) => answer.body.code === "idempotency_key_in_use");
  expect(accepted.length + running.length).toBe(6);
  expect(new Set(accepted.map((answer) => answer.body.metadata.id)).size).toBe(1);
});

test("another body, or another route, under the same key is refused", async () => {
  await post("k3", { name: "first" });
  const body = await post("k3", { name: "second" });
  expect(body.status).toBe(422);
  expect(body.body.code).toBe("idempotency_key_reused");
  expect((await post("k3", { name: "first" }, undefined, "/v1/api-keys")).status).toBe(422);
});

test("a preview leaves the key to the change that it is a preview of", async () => {
  const preview = await post("k9", { name: "seen" }, undefined, "/v1/clusters?validate_only=true");
  expect(preview.status).toBe(200);
  const made = await post("k9", { name: "seen" });
  expect(made.status).toBe(202);
  expect(made.headers.get("idempotency-replayed")).toBeNull();
  const late = await post("k9", { name: "seen2" }, undefined, "/v1/clusters?validate_only=true");
  expect(late.status).toBe(200);
});

test("another query is another request, another order of its fields is not", async () => {
  const first = await post("k10", { name: "asked" }, undefined, "/v1/clusters?validate_only=false");
  expect(first.status).toBe(202);
  const other = await post("k10", { name: "asked" });
  expect(other.body.code).toBe("idempotency_key_reused");
  const same = await post("k10", { name: "asked" }, undefined, "/v1/clusters?validate_only=false");
  expect(same.headers.get("idempotency-replayed")).toBe("true");
});

test("a key is its sender's own: another sender's request is another request", async () => {
  const first = await post("k4", { name: "shared" });
  const theirs = await post("k4", { name: "shared" }, fixture.theirs.apiKey);
  expect(theirs.status).toBe(202);
  expect(theirs.body.metadata.id).not.toBe(first.body.metadata.id);
  const colleague = await keyOfRole(fixture.db, fixture.ours, "admin");
  const same = await post("k4", { name: "shared" }, colleague);
  expect(same.body.code).toBe("cluster_name_taken");
});

test("a refusal for good is replayed; one that time may cure is not", async () => {
  const taken = await post("k5", { name: "once" });
  expect(taken.status).toBe(409);
  const invalid = await post("k6", { name: "Not A Name" });
  expect(invalid.status).toBe(400);
  const repaired = await post("k6b", { name: "a-name" });
  expect(repaired.status).toBe(202);
});

test("a secret is never kept for a replay", async () => {
  const first = await post("k7", { name: "robot" }, undefined, "/v1/api-keys");
  expect(first.body.secret).toMatch(/^mrk_/);
  const second = await post("k7", { name: "robot" }, undefined, "/v1/api-keys");
  expect(second.status).toBe(409);
  expect(second.body.code).toBe("idempotent_answer_not_kept");
  expect(JSON.stringify(second.body)).not.toContain(first.body.secret);
});

test("a body is kept as a hash that needs the installation's secret", async () => {
  const body = { name: "hashed" };
  expect((await post("k11", body)).status).toBe(202);
  const plain = createHash("sha256").update(JSON.stringify(body)).digest("hex");
  const rows = await everyRow(fixture.ownerUrl);
  expect(rows).toContain("k11");
  expect(rows).not.toContain(plain);
});

test("a key that is empty or too long is refused", async () => {
  for (const key of [" ", "k".repeat(256)]) {
    expect((await post(key, { name: "n" })).body.code).toBe("validation_failed");
  }
});

test("a path that cannot be stored as it is finds no cluster, and breaks nothing", async () => {
  const answer = await post("k8", { name: "t" }, undefined, "/v1/clusters/%00/topics");
  expect(answer.status).toBe(404);
});

test("no row is written for a caller that may not make the change", async () => {
  const viewer = await keyOfRole(fixture.db, fixture.ours, "viewer");
  await runSql(
    fixture.ownerUrl,
    `CREATE FUNCTION refuse_row() RETURNS trigger LANGUAGE plpgsql
       AS $$ BEGIN RAISE EXCEPTION 'a row is written'; END $$;
     CREATE TRIGGER refuse_row BEFORE INSERT ON idempotency_key
       FOR EACH ROW WHEN (NEW.key = 'k-viewer') EXECUTE FUNCTION refuse_row()`,
  );
  expect((await post("k-viewer", { name: "forbidden" }, viewer)).status).toBe(403);
  const owner = await post("k-viewer", { name: "allowed" });
  expect(owner.status).toBe(500);
});
