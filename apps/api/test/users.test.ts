import { expect, test } from "vitest";
import { apiFixture, call, keyOfRole, runningCluster } from "./fixture.ts";

const fixture = apiFixture();

async function clusterWithUsers(name: string) {
  const { app, db, ours, kafka } = fixture;
  const { cluster } = await runningCluster(db, ours, name);
  const path = `/v1/clusters/${cluster.id}/users`;
  const send = (method: string, below: string, body?: object, headers = {}) =>
    call(app, method, `${path}${below}`, {
      apiKey: ours.apiKey,
      headers,
      ...(body !== undefined && { body }),
    });
  const passwords = (user: string) => {
    const address = `127.0.0.1:${cluster.placement?.kafkaPort}`;
    return Object.fromEntries(kafka.users.get(address)?.get(user) ?? []);
  };
  return { cluster, send, passwords };
}

test("a user's password is in the answer once, and nowhere afterwards", async () => {
  const { send, passwords } = await clusterWithUsers("create-user");
  const made = await send("POST", "", { name: "alice" });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({
    name: "alice",
    principal: "User:alice",
    mechanisms: ["SCRAM-SHA-256", "SCRAM-SHA-512"],
  });
  const { password } = made.body;
  expect(password.length).toBeGreaterThanOrEqual(32);
  expect(passwords("alice")).toEqual({ "SCRAM-SHA-256": password, "SCRAM-SHA-512": password });
  const { password: _, ...shown } = made.body;
  expect((await send("GET", "/alice")).body).toEqual(shown);
  const audit = await call(fixture.app, "GET", "/v1/audit-events?method=user.create", {
    apiKey: fixture.ours.apiKey,
  });
  expect(audit.body.items.map(({ result }: { result: string }) => result)).toContain("started");
  expect(JSON.stringify(audit.body)).not.toContain(password);
});

test("a name is given once, and a retry with the same key does not make a second password", async () => {
  const { send, passwords } = await clusterWithUsers("taken-user");
  const first = await send("POST", "", { name: "bob" }, { "idempotency-key": "bob-1" });
  expect(first.status).toBe(201);
  const again = await send("POST", "", { name: "bob" });
  expect(again.status).toBe(409);
  expect(again.body).toMatchObject({ code: "user_name_taken", errors: [{ pointer: "/name" }] });
  const retried = await send("POST", "", { name: "bob" }, { "idempotency-key": "bob-1" });
  expect(retried.body.code).toBe("idempotent_answer_not_kept");
  expect(passwords("bob")["SCRAM-SHA-512"]).toBe(first.body.password);
});

test("nobody is named like clients without credentials, who are super users", async () => {
  const { send } = await clusterWithUsers("anonymous-user");
  const refused = await send("POST", "", { name: "ANONYMOUS" });
  expect([refused.status, refused.body.errors?.[0].pointer]).toEqual([400, "/name"]);
});

test("a chosen password is taken and not repeated", async () => {
  const { send, passwords } = await clusterWithUsers("chosen-password");
  const password = "correct horse battery";
  const made = await send("POST", "", { name: "carol", password });
  expect(made.status).toBe(201);
  expect(made.body.password).toBeNull();
  expect(passwords("carol")["SCRAM-SHA-256"]).toBe(password);
  for (const [body, pointer] of [
    [{ name: "dave", password: "short" }, "/password"],
    [{ name: "dave", password: "pässwörter sind lang" }, "/password"],
    [{ name: "with space" }, "/name"],
    // No URL could name them: a client resolves them as parts of the path.
    [{ name: "." }, "/name"],
    [{ name: ".." }, "/name"],
    [{ name: "__internal" }, "/name"],
  ] as const) {
    const refused = await send("POST", "", body);
    expect(refused.status).toBe(400);
    expect(refused.body.errors[0].pointer).toBe(pointer);
  }
});

test("rotating one mechanism keeps the old password with the other until it is removed", async () => {
  const { send, passwords } = await clusterWithUsers("rotate-user");
  const old = (await send("POST", "", { name: "erin" })).body.password;
  const rotated = await send("POST", "/erin/rotate", { mechanism: "SCRAM-SHA-512" });
  expect(rotated.status).toBe(200);
  expect(rotated.body.password).not.toBe(old);
  expect(passwords("erin")).toEqual({
    "SCRAM-SHA-256": old,
    "SCRAM-SHA-512": rotated.body.password,
  });
  const ended = await send("PATCH", "/erin", { mechanisms: ["SCRAM-SHA-512"] });
  expect(ended.body.mechanisms).toEqual(["SCRAM-SHA-512"]);
  expect(passwords("erin")).toEqual({ "SCRAM-SHA-512": rotated.body.password });
  for (const refused of [
    await send("POST", "/erin/rotate", { mechanism: "SCRAM-SHA-256" }),
    await send("PATCH", "/erin", { mechanisms: ["SCRAM-SHA-256", "SCRAM-SHA-512"] }),
  ]) {
    expect(refused.status).toBe(400);
    expect(refused.body.errors[0].code).toBe("unknown_mechanism");
  }
  const all = await send("POST", "/erin/rotate", {});
  expect(passwords("erin")).toEqual({ "SCRAM-SHA-512": all.body.password });
});

test("users are listed in pages, deleted once, and 404 afterwards", async () => {
  const { send } = await clusterWithUsers("list-users");
  for (const name of ["b", "a", "c@example.org"]) await send("POST", "", { name });
  const first = await send("GET", "?page_size=2");
  const rest = await send("GET", `?page_size=2&page_token=${first.body.next_page_token}`);
  const names = [...first.body.items, ...rest.body.items].map(({ name }) => name);
  expect(names).toEqual(["a", "b", "c@example.org"]);
  expect((await send("DELETE", `/${encodeURIComponent("c@example.org")}`)).status).toBe(204);
  for (const answer of [
    await send("DELETE", "/c@example.org"),
    await send("GET", "/c@example.org"),
    await send("POST", "/c@example.org/rotate", {}),
  ]) {
    expect(answer.status).toBe(404);
    expect(answer.body.code).toBe("not_found");
  }
});

test("a viewer reads users and changes none", async () => {
  const { app, db, ours } = fixture;
  const { cluster } = await clusterWithUsers("viewed-users");
  const apiKey = await keyOfRole(db, ours, "viewer");
  const path = `/v1/clusters/${cluster.id}/users`;
  expect((await call(app, "GET", path, { apiKey })).status).toBe(200);
  const refused = await call(app, "POST", path, { apiKey, body: { name: "mallory" } });
  expect(refused.status).toBe(403);
});
