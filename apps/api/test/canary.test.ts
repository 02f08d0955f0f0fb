/** Secrets of callers, searched for in all that the API writes: log, answers, database. */
import { Writable } from "node:stream";
import { contracts } from "@millrace/contract";
import { everyRow, runSql } from "@millrace/testkit";
import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { askRoute } from "./every-contract.ts";
import { apiFixture, call, personOfRole, runningCluster } from "./fixture.ts";

const written: string[] = [];
const log = pino(
  { level: "trace" },
  new Writable({
    write(chunk, _encoding, done) {
      written.push(String(chunk));
      done();
    },
  }),
);
const fixture = apiFixture({ log });

test("no secret is in the log, in a later answer or in a row", async () => {
  const { app, db, ours, theirs } = fixture;
  const console_ = vi.spyOn(console, "error").mockImplementation((...parts) => {
    written.push(parts.map(String).join(" "));
  });
  try {
    const { cluster, operation } = await runningCluster(db, ours, "canary");
    const made = await call(app, "POST", "/v1/api-keys", {
      apiKey: ours.apiKey,
      body: { name: "canary" },
      headers: { "idempotency-key": "canary" },
    });
    const user = await call(app, "POST", `/v1/clusters/${cluster.id}/users`, {
      apiKey: ours.apiKey,
      body: { name: "canary" },
      headers: { "idempotency-key": "canary-user" },
    });
    const { cookie } = await personOfRole(fixture, "admin");
    const wrong = "canary of a password that is wrong";
    const body = { email: theirs.email, password: wrong };
    await call(app, "POST", "/api/auth/sign-in/email", { body });
    const badKey = `mrk_${"canary".repeat(7)}A`;
    await call(app, "GET", `/v1/me?token=${wrong}`, { apiKey: badKey });
    // A field that nobody knows, in a request that is refused and audited.
    const odd = { name: "x", nested: { password: wrong } };
    await call(app, "POST", "/v1/environments", { apiKey: ours.apiKey, body: odd });

    const secrets = { made: made.body.secret, user: user.body.password, cookie, wrong, badKey };
    for (const secret of Object.values(secrets)) expect(secret?.length).toBeGreaterThan(15);
    const all = { ...secrets, ours: ours.apiKey, ourPassword: ours.password };

    const ids = {
      clusterId: cluster.id,
      operationId: operation.id,
      apiKeyId: made.body.id,
      environmentId: ours.environment.id,
      organizationId: ours.organization.id,
    };
    const headers = { authorization: `Bearer ${ours.apiKey}` };
    const reads = contracts.filter(({ method, stream }) => method === "GET" && !stream);
    for (const contract of reads) {
      const answer = await askRoute(app, contract, ids as never, headers);
      written.push(`${contract.name}: ${JSON.stringify(answer.body)}`);
    }
    const exported = await app.request("/v1/audit-events/export", { headers });
    written.push(await exported.text());
    // The search itself works.
    await runSql(fixture.ownerUrl, "CREATE TABLE planted AS SELECT 'a planted canary' AS text");
    const rows = await everyRow(fixture.ownerUrl);
    expect(rows).toContain("a planted canary");
    expect(rows).toContain(made.body.id);
    expect(written.join("\n")).toContain(made.body.id);
    for (const [name, secret] of Object.entries(all)) {
      expect([name, written.some((text) => text.includes(secret))]).toEqual([name, false]);
      expect([name, rows.includes(secret)]).toEqual([name, false]);
    }
  } finally {
    console_.mockRestore();
  }
});
