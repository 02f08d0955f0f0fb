/** The installation's secret is replaced: nothing that it sealed is lost, before and after it is sealed again. */
import { SecretSeal } from "@millrace/auth";
import { ssoSecretSeal } from "@millrace/core";
import { newId } from "@millrace/domain";
import { runSql } from "@millrace/testkit";
import type { Hono } from "hono";
import { pino } from "pino";
import { beforeAll, expect, test } from "vitest";
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
    kafka: kafka.access,
    brokerHttp: kafka.http,
    drivers: { local: planner, awsPlanner: planner, localAvailable: true, awsAvailable: false },
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

beforeAll(async () => {
  connection = newId("sso");
  const { id: organizationId } = fixture.ours.organization;
  const sealed = ssoSecretSeal(SECRET).seal(CLIENT_SECRET, [organizationId, connection]);
  await fixture.db.tenant(organizationId).ssoConnections.put({
    ...{ id: connection, organizationId, issuer: "https://id.example", clientId: "millrace" },
    ...{ domains: [], defaultRole: "viewer", required: false, clientSecret: sealed },
  });
});

test("second factors and client secrets outlive a rotation, and then need the old secret no longer", async () => {
  const { app, ours, ownerUrl } = fixture;
  const { password } = ours;
  const begun = await auth(app, "two-factor/enable", { password }, await signIn(app));
  const { totpURI, backupCodes } = begun.body;
  const first = { code: totpCode(totpURI) };
  expect((await auth(app, "two-factor/verify-totp", first, await signIn(app))).status).toBe(200);
  // As versions before the rotation stored it: without the number of the secret.
  await runSql(
    ownerUrl,
    `UPDATE two_factor SET secret = split_part(secret, '$', 4), backup_codes = split_part(backup_codes, '$', 4)`,
  );

  const rotated = apiWith(NEXT, [SECRET]);
  const second = { code: totpCode(totpURI, 1) };
  const challenge = await signIn(rotated);
  expect((await auth(rotated, "two-factor/verify-totp", second, challenge)).status).toBe(200);
  expect(await reseal(NEXT, [])).toMatchObject([{ msg: expect.stringContaining("could not") }]);
  expect(await reseal(NEXT, [SECRET])).toEqual([
    {
      msg: "all secrets are sealed by MILLRACE_AUTH_SECRET",
      second_factors: { resealed: 1, left: 0 },
      client_secrets: { resealed: 1, left: 0 },
    },
  ]);
  expect(await reseal(NEXT, [SECRET])).toMatchObject([{ second_factors: { resealed: 0 } }]);

  const forgotten = apiWith(NEXT, []);
  const recovery = { code: backupCodes[0] };
  const recovered = auth(
    forgotten,
    "two-factor/verify-backup-code",
    recovery,
    await signIn(forgotten),
  );
  expect((await recovered).status).toBe(200);
  const owner = [ours.organization.id, connection];
  expect(ssoSecretSeal(NEXT).open(await sealedClientSecret(), owner)).toBe(CLIENT_SECRET);
  const old = new SecretSeal(SECRET, "millrace sso client secret");
  expect(old.open(await sealedClientSecret(), owner)).toBeUndefined();
});
