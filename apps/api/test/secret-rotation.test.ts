/** The installation's secret is replaced: nothing that it sealed is lost, before and after it is sealed again. */
import { ssoSecretSeal } from "@millrace/core";
import { newId } from "@millrace/domain";
import { runSql } from "@millrace/testkit";
import type { Hono } from "hono";
import { pino } from "pino";
import { expect, test } from "vitest";
import { createApi } from "../src/create-api.ts";
import type { ApiEnv } from "../src/request-context.ts";
import { resealSecrets } from "../src/reseal-secrets.ts";
import { type Answer, API_URL, apiFixture, CONSOLE_URL, call, SECRET } from "./fixture.ts";
import { frozenDate } from "./frozen-date.ts";
import { totpCode } from "./totp.ts";

const fixture = apiFixture();
frozenDate();
const NEXT = "the next secret of the tests, long enough";
const CLIENT_SECRET = "a client secret";
let connection: ReturnType<typeof newId<"sso">>;

/** The API after a restart with these secrets. */
function apiWith(secret: string, replacedSecrets: string[]): Hono<ApiEnv> {
  const { apiDb: db, deferredWrites, kafka, planner } = fixture;
  return createApi({
    ...{ db, deferredWrites, secret, replacedSecrets, apiUrl: API_URL, consoleUrl: CONSOLE_URL },
    log: pino({ level: "silent" }),
    brokerHttp: kafka.http,
    drivers: { local: planner, awsPlanner: planner, localAvailable: true, awsRegion: undefined },
    rateLimit: false,
  });
}

async function reseal(secret: string, replacedSecrets: string[]) {
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  await resealSecrets({ db: fixture.apiDb, log, secret, replacedSecrets, apiUrl: API_URL });
  return lines.map(({ msg, second_factors, client_secrets }) => ({
    ...{ msg, second_factors, client_secrets },
  }));
}

const auth = (app: Hono<ApiEnv>, path: string, body: object, cookie = "") =>
  call(app, "POST", `/api/auth/${path}`, { headers: { origin: CONSOLE_URL, cookie }, body });

const cookieOf = ({ headers }: Answer) =>
  headers
    .getSetCookie()
    .map((each) => each.split(";")[0])
    .join("; ");

const signIn = async (app: Hono<ApiEnv>) => {
  const { email, password } = fixture.ours;
  return cookieOf(await auth(app, "sign-in/email", { email, password }));
};

const sealedClientSecret = async () => {
  const { id } = fixture.ours.organization;
  const stored = await fixture.db.tenant(id).ssoConnections.find(id);
  return stored?.clientSecret ?? new Uint8Array();
};

async function connect(): Promise<void> {
  connection = newId("sso");
  const { id: organizationId } = fixture.ours.organization;
  const sealed = ssoSecretSeal(SECRET).seal(CLIENT_SECRET, [organizationId, connection]);
  await fixture.db.tenant(organizationId).ssoConnections.put({
    ...{ id: connection, organizationId, issuer: "https://id.example", clientId: "millrace" },
    ...{ domains: [], defaultRole: "viewer", required: false, clientSecret: sealed },
  });
}

async function enableSecondFactor(app: Hono<ApiEnv>) {
  const { password } = fixture.ours;
  const begun = await auth(app, "two-factor/enable", { password }, await signIn(app));
  const first = { code: totpCode(begun.body.totpURI) };
  expect((await auth(app, "two-factor/verify-totp", first, await signIn(app))).status).toBe(200);
  return begun.body as { totpURI: string; backupCodes: string[] };
}

/** As versions of Millrace stored it that knew one secret only: without the number of the secret. */
const UNNUMBERED = `UPDATE two_factor SET secret = split_part(secret, '$', 4),
  backup_codes = split_part(backup_codes, '$', 4)`;
/** As an API process that does not know the new secret yet leaves it. */
const CODES_LEFT = `UPDATE two_factor SET backup_codes = (SELECT backup_codes FROM before);
  DROP TABLE before`;

test.each([
  ["with the number of its secret", [SECRET], ""],
  ["by a secret before the last one", ["one between them, which sealed nothing", SECRET], ""],
  ["by an earlier version of Millrace", [SECRET], UNNUMBERED],
])(
  "what was sealed %s outlives a rotation, and then needs no old secret",
  async (_, replaced, sql) => {
    const { app, ours, ownerUrl } = fixture;
    await runSql(ownerUrl, "DELETE FROM two_factor");
    await runSql(ownerUrl, 'UPDATE "user" SET two_factor_enabled = false');
    await connect();
    const { totpURI, backupCodes } = await enableSecondFactor(app);
    if (sql) await runSql(ownerUrl, sql);
    await runSql(ownerUrl, "CREATE TABLE before AS SELECT backup_codes FROM two_factor");

    const rotated = apiWith(NEXT, replaced);
    const second = { code: totpCode(totpURI, 1) };
    const challenge = await signIn(rotated);
    expect((await auth(rotated, "two-factor/verify-totp", second, challenge)).status).toBe(200);
    expect(await reseal(NEXT, [])).toMatchObject([{ msg: expect.stringContaining("could not") }]);
    const done = {
      msg: "second factors and client secrets are sealed with MILLRACE_AUTH_SECRET",
      second_factors: { resealed: 1, left: 0 },
      client_secrets: { resealed: 1, left: 0 },
    };
    const none = { resealed: 0, left: 0 };
    expect(await reseal(NEXT, replaced)).toEqual([done]);
    await runSql(ownerUrl, CODES_LEFT);
    expect(await reseal(NEXT, replaced)).toEqual([{ ...done, client_secrets: none }]);
    const again = await reseal(NEXT, replaced);
    expect(again).toEqual([{ ...done, second_factors: none, client_secrets: none }]);

    const forgotten = apiWith(NEXT, []);
    const recovery = { code: backupCodes[0] };
    const asked = await signIn(forgotten);
    const recovered = await auth(forgotten, "two-factor/verify-backup-code", recovery, asked);
    expect(recovered.status).toBe(200);
    const owner = [ours.organization.id, connection];
    expect(ssoSecretSeal(NEXT).open(await sealedClientSecret(), owner)).toBe(CLIENT_SECRET);
    expect(ssoSecretSeal(SECRET).open(await sealedClientSecret(), owner)).toBeUndefined();
  },
);
