/** Single sign-on against a real OpenID provider: who gets in, who does not, and how far a session reaches. */
import { OutgoingRequests } from "@millrace/auth";
import { newId } from "@millrace/domain";
import { runSql, selfSigned, setUp } from "@millrace/testkit";
import { pino } from "pino";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { type Answer, apiFixture, CONSOLE_URL, call, sessionOf } from "./fixture.ts";
import { frozenDate } from "./frozen-date.ts";
import {
  CLIENT_ID,
  CLIENT_SECRET,
  type Claims,
  OidcProvider,
  type Tampering,
} from "./oidc-provider.ts";

const tls = selfSigned();
const provider = await OidcProvider.start(tls);
const theirProvider = await OidcProvider.start(tls);
const logged: Record<string, unknown>[] = [];
const fixture = apiFixture({
  log: pino({ level: "warn" }, { write: (line: string) => logged.push(JSON.parse(line)) }),
  outgoing: new OutgoingRequests({ allowedAddresses: ["127.0.0.1", "::1"], ca: provider.ca }),
});
afterAll(() => Promise.all([provider.stop(), theirProvider.stop()]));

const SETTINGS = {
  issuer: provider.issuer,
  client_id: CLIENT_ID,
  client_secret: CLIENT_SECRET,
  domains: ["corp.example"],
  default_role: "developer",
};

async function putConnection(
  changes: object = {},
  apiKey = fixture.ours.apiKey,
  at = provider,
): Promise<Answer> {
  const body = { ...SETTINGS, ...changes };
  const answer = await call(fixture.app, "POST", "/v1/single-sign-on", { apiKey, body });
  if (answer.status === 200) at.redirectUris.add(answer.body.connection.redirect_uri);
  return answer;
}

setUp(async () => {
  expect((await putConnection()).status).toBe(200);
});
beforeEach(() => {
  provider.tamper = {};
});

type Browser = { cookie: string };

/** Each browser has an address of its own, so that the limit per address is not the matter. */
let browsers = 0;
const headersOf = (browser: Browser) => {
  browsers += 1;
  const address = `192.0.2.${browsers % 250}`;
  return { ...browser, origin: CONSOLE_URL, "x-forwarded-for": address };
};

function cookiesOf({ headers }: Answer): string {
  const pairs = headers.getSetCookie().map((each) => each.split(";")[0] ?? "");
  return pairs.filter((pair) => !pair.endsWith("=")).join("; ");
}

const person = (changes: Partial<Claims> = {}): Claims => {
  const sub = newId("usr").toLowerCase();
  return { sub, email: `${sub}@corp.example`, email_verified: true, name: "Ada", ...changes };
};

async function start(name = "ours", path = "start", browser: Browser = { cookie: "" }) {
  const body = path === "start" ? { name, return_to: "/clusters?a=b" } : { return_to: "/settings" };
  const headers = headersOf(browser);
  return call(fixture.app, "POST", `/api/sso/${path}`, { headers, body });
}

/** What the provider sends the browser back with, given to the API. */
async function come(back: URL, browser: Browser): Promise<Answer> {
  const path = `${back.pathname}${back.search}`;
  return call(fixture.app, "GET", path, { headers: headersOf(browser) });
}

/** A whole sign-in of somebody at the provider. */
async function signIn(
  who: Claims,
  name = "ours",
): Promise<Answer & { session: Browser; to: string }> {
  provider.person = who;
  const started = await start(name);
  expect(started.status).toBe(200);
  const back = await provider.signIn(started.body.location);
  const answer = await come(back, { cookie: cookiesOf(started) });
  const to = answer.headers.get("location") ?? "";
  return { ...answer, session: { cookie: cookiesOf(answer) }, to };
}

const me = (headers: Browser) => call(fixture.app, "GET", "/v1/me", { headers });
const refused = (reason: string) => `${CONSOLE_URL}/sign-in?sso=${reason}`;

// biome-ignore lint/suspicious/noExplicitAny: events are asserted on, field by field.
async function events(method: string): Promise<any[]> {
  const path = `/v1/audit-events?method=${method}&page_size=20`;
  return (await call(fixture.app, "GET", path, { apiKey: fixture.ours.apiKey })).body.items;
}

describe("a sign-in", () => {
  test("makes somebody new a member with the default role, and finds them again by their subject", async () => {
    const ada = person();
    const first = await signIn(ada);
    expect([first.status, first.to]).toEqual([302, `${CONSOLE_URL}/clusters?a=b`]);
    const { body } = await me(first.session);
    expect(body).toMatchObject({ role: "developer", user: { email: ada.email, name: "Ada" } });
    expect(body.organizations).toHaveLength(1);
    const by = {
      auth_method: "sso",
      result: "success",
      actor: { id: body.user.id, name: ada.email },
    };
    const [joined] = await events("member.create");
    expect(joined).toMatchObject({ ...by, after: { email: ada.email, role: "developer" } });
    expect(joined.target_id).toMatch(/^mem_/);
    expect((await events("session.create"))[0]).toMatchObject({ ...by, target_id: body.user.id });
    // The address may change; the subject stays. The log has the account's address, not what the provider says.
    const later = await signIn({ ...ada, email: `renamed-${ada.sub}@corp.example` });
    expect((await me(later.session)).body.user.id).toBe(body.user.id);
    expect((await events("session.create"))[0]).toMatchObject(by);
  });

  test("is found by the domain of an address, and by the organization's name", async () => {
    const ada = person();
    expect((await signIn(ada, `${ada.sub}@CORP.example`)).status).toBe(302);
    for (const name of [
      "theirs",
      "no-such",
      "ada@elsewhere.example",
      "@corp.example",
      "ours' OR 1=1",
    ]) {
      const answer = await start(name);
      expect([answer.status, answer.body.code]).toEqual([404, "not_found"]);
    }
  });

  test("gives an invited person the role of the invitation", async () => {
    const { app, ours } = fixture;
    const ada = person();
    const body = { email: ada.email, role: "operator" };
    const invited = await call(app, "POST", "/v1/invitations", { apiKey: ours.apiKey, body });
    expect((await me((await signIn(ada)).session)).body.role).toBe("operator");
    const path = `/v1/invitations/${invited.body.id}`;
    expect((await call(app, "GET", path, { apiKey: ours.apiKey })).status).toBe(404);
    const [accepted] = await events("invitation.accept");
    expect(accepted).toMatchObject({ auth_method: "sso", target_id: invited.body.id });
  });

  test("does not bring back a removed member, until somebody invites them again", async () => {
    const { app, ours } = fixture;
    const { apiKey } = ours;
    const ada = person();
    const { session } = await signIn(ada);
    const { items } = (await call(app, "GET", "/v1/members?page_size=1000", { apiKey })).body;
    const { id } = items.find((member: { email: string }) => member.email === ada.email);
    await call(app, "DELETE", `/v1/members/${id}`, { apiKey });
    expect((await me(session)).status).toBe(403);
    expect((await signIn(ada)).to).toBe(refused("removed"));
    const body = { email: ada.email, role: "viewer" };
    await call(app, "POST", "/v1/invitations", { apiKey, body });
    expect((await me((await signIn(ada)).session)).body.role).toBe("viewer");
  });

  test("reads the address from the user information where the token has none", async () => {
    const { claims: _, ...rest } = provider.tamper;
    provider.tamper = { ...rest, claims: ({ email, email_verified, name, ...kept }) => kept };
    const ada = person();
    expect((await me((await signIn(ada)).session)).body.user.email).toBe(ada.email);
  });
});

describe("an answer that is not to be trusted", () => {
  const inAnHour = () => Math.floor(Date.now() / 1_000) + 3_600;
  test.each<[string, Tampering]>([
    ["another nonce", { claims: (all) => ({ ...all, nonce: "another" }) }],
    ["no nonce", { claims: ({ nonce: _, ...rest }) => rest }],
    ["another audience", { claims: (all) => ({ ...all, aud: "another" }) }],
    ["another issuer", { claims: (all) => ({ ...all, iss: "https://another.example" }) }],
    ["an expired token", { claims: (all) => ({ ...all, exp: inAnHour() - 7_200 }) }],
    ["a token of the future", { claims: (all) => ({ ...all, nbf: inAnHour() }) }],
    ["a foreign key", { foreignKey: true }],
    ["a subject that is not ASCII", { claims: (all) => ({ ...all, sub: "\u212a" }) }],
    ["a subject of 256 characters", { claims: (all) => ({ ...all, sub: "s".repeat(256) }) }],
  ])("%s", async (_, tampering) => {
    provider.tamper = tampering;
    const answer = await signIn(person());
    expect(answer.to).toBe(refused("provider"));
    expect(answer.session.cookie).toBe("");
    const [event] = await events("session.create");
    expect(event).toMatchObject({
      ...{ result: "failure", error_code: "sso_failed", auth_method: "sso" },
      request: { refusal: "provider" },
    });
  });

  test("another state, another browser, an answer that is sent twice", async () => {
    provider.person = person();
    const started = await start();
    const back = await provider.signIn(started.body.location);
    const own = { cookie: cookiesOf(started) };
    expect((await come(back, { cookie: "" })).headers.get("location")).toBe(refused("expired"));
    const other = { cookie: cookiesOf(await start()) };
    expect((await come(back, other)).headers.get("location")).toBe(refused("provider"));
    expect((await come(back, own)).headers.get("location")).toBe(`${CONSOLE_URL}/clusters?a=b`);
    // An attempt has one answer, and whoever repeats it adds nothing to the audit log.
    const [last] = await events("session.create");
    expect((await come(back, own)).headers.get("location")).toBe(refused("expired"));
    expect((await events("session.create"))[0]).toEqual(last);
    const forged = new URL(back);
    const third = await start();
    expect((await come(forged, { cookie: cookiesOf(third) })).headers.get("location")).toBe(
      refused("provider"),
    );
    // In the middle: the last character of base64url has bits that mean nothing.
    const middle = own.cookie.length - 40;
    const changed = own.cookie[middle] === "A" ? "B" : "A";
    const broken = {
      cookie: `${own.cookie.slice(0, middle)}${changed}${own.cookie.slice(middle + 1)}`,
    };
    expect((await come(back, broken)).headers.get("location")).toBe(refused("expired"));
  });

  test("an answer of another organization's provider", async () => {
    const { apiKey } = fixture.theirs;
    const theirs = { issuer: theirProvider.issuer, domains: ["theirs.example"] };
    // It leaves out what would tell the answers apart (RFC 9207).
    theirProvider.tamper = {
      metadata: ({ authorization_response_iss_parameter_supported: _, ...rest }) => rest,
    };
    expect((await putConnection(theirs, apiKey, theirProvider)).status).toBe(200);
    provider.person = person();
    const [honest, hostile] = [await start("ours"), await start("theirs")];
    // Their provider leads a browser that came for theirs to ours, which is to be asked for ours alone.
    const back = await provider.signIn(honest.body.location);
    const wanted = new URL(hostile.body.location).searchParams;
    back.searchParams.set("state", wanted.get("state") ?? "");
    back.searchParams.delete("iss");
    const before = theirProvider.asked.length;
    const answer = await come(back, { cookie: cookiesOf(hostile) });
    expect(answer.headers.get("location")).toBe(refused("provider"));
    expect(logged.at(-1)?.msg).toBe("The answer came to another connection's redirect URI.");
    // The code did not get to their provider.
    expect(theirProvider.asked.length).toBe(before);
    const remove = await call(fixture.app, "DELETE", "/v1/single-sign-on", { apiKey });
    expect(remove.status).toBe(204);
  });

  test("a refusal of the provider", async () => {
    const started = await start();
    const sent = new URL(started.body.location).searchParams;
    const state = sent.get("state") ?? "";
    const back = new URL(sent.get("redirect_uri") ?? "");
    back.search = new URLSearchParams({
      error: "access_denied",
      state,
      iss: provider.issuer,
    }).toString();
    const answer = await come(back, { cookie: cookiesOf(started) });
    expect(answer.headers.get("location")).toBe(refused("cancelled"));
  });

  test("an answer that comes after the connection was changed or removed", async () => {
    const { app, ours } = fixture;
    const remove = () =>
      call(app, "DELETE", "/v1/single-sign-on", { apiKey: ours.apiKey }).then(({ status }) =>
        expect(status).toBe(204),
      );
    const narrow = () =>
      putConnection({ domains: ["other.example"] }).then(({ status }) => expect(status).toBe(200));
    for (const change of [remove, narrow]) {
      // The provider is asked for the token while the owner changes the connection.
      provider.tamper = { claims: (all) => change().then(() => all) };
      const ada = person();
      const answer = await signIn(ada);
      expect([answer.to, answer.session.cookie]).toEqual([refused("expired"), ""]);
      expect(await fixture.db.organizations.findUserByEmail(ada.email ?? "")).toBeUndefined();
      provider.tamper = {};
      await putConnection();
    }
  });

  test("a fault of ours leads to the console as well", async () => {
    const rename = (from: string, to: string) =>
      runSql(fixture.ownerUrl, `ALTER TABLE ${from} RENAME TO ${to}`);
    provider.tamper = { claims: (all) => rename("account", "account_away").then(() => all) };
    const { to } = await signIn(person());
    await rename("account_away", "account");
    expect(to).toBe(refused("internal"));
    expect(logged.at(-1)).toMatchObject({ msg: "a sign-in failed" });
  });
});

test("a provider that has become unusable is a refusal, whose reason is in the log", async () => {
  const broken = await OidcProvider.start(tls);
  const { apiKey } = fixture.theirs;
  const theirs = { issuer: broken.issuer, domains: ["theirs.example"] };
  expect((await putConnection(theirs, apiKey, broken)).status).toBe(200);
  broken.tamper = { metadata: ({ authorization_endpoint: _, ...rest }) => rest };
  const answer = await start("theirs");
  expect([answer.status, answer.body.code]).toEqual([403, "sso_failed"]);
  expect(logged.at(-1)).toMatchObject({
    ...{ refusal: "provider", msg: "The identity provider cannot be reached." },
    reason: "Fields of its metadata are missing or invalid: authorization_endpoint.",
  });
  const again = await putConnection(theirs, apiKey, broken);
  expect(again.body.detail).toBe(
    `There is no usable OpenID provider at ${broken.issuer}. Fields of its metadata are missing or invalid: authorization_endpoint.`,
  );
  await call(fixture.app, "DELETE", "/v1/single-sign-on", { apiKey });
  await broken.stop();
});

test("an address counts only if it is verified, and of an allowed domain", async () => {
  expect((await signIn(person({ email_verified: false }))).to).toBe(refused("email_unverified"));
  const { email_verified: _, ...unsaid } = person();
  expect((await signIn(unsaid)).to).toBe(refused("email_unverified"));
  const stranger = person();
  const elsewhere = { ...stranger, email: `${stranger.sub}@elsewhere.example` };
  expect((await signIn(elsewhere)).to).toBe(refused("domain_not_allowed"));
  const lookalike = { ...stranger, email: `${stranger.sub}@corp.example.evil.example` };
  expect((await signIn(lookalike)).to).toBe(refused("domain_not_allowed"));
  expect(await fixture.db.organizations.findUserByEmail(elsewhere.email)).toBeUndefined();
});

describe("a provider of one organization", () => {
  test("takes over no account of somebody who is no member", async () => {
    const { app, theirs } = fixture;
    await putConnection({ domains: ["corp.example", "example.com"] });
    const answer = await signIn(person({ email: theirs.email }));
    expect([answer.to, answer.session.cookie]).toEqual([refused("account_exists"), ""]);
    const { items } = (
      await call(app, "GET", "/v1/members?page_size=1000", { apiKey: fixture.ours.apiKey })
    ).body;
    expect(JSON.stringify(items)).not.toContain(theirs.email);
    await putConnection();
  });

  test("opens sessions that are good for the tenant alone, and not for the account", async () => {
    const { app, ours, theirs, apiDb } = fixture;
    const ada = person();
    const { session } = await signIn(ada);
    const user = (await me(session)).body.user;
    await apiDb
      .tenant(theirs.organization.id)
      .organizations.putMember(theirs.organization.id, user.id, "admin");
    const foreign = { ...session, "millrace-organization": theirs.organization.id };
    expect((await me(foreign)).status).toBe(404);
    const preferred = {
      cookie: `${session.cookie}; millrace-organization=${theirs.organization.id}`,
    };
    const shown = (await me(preferred)).body;
    expect(shown.organization.id).toBe(ours.organization.id);
    expect(JSON.stringify(shown)).not.toContain(theirs.organization.id);
    const post = (path: string, body: object) =>
      call(app, "POST", `/api/auth/${path}`, {
        headers: { ...session, origin: CONSOLE_URL },
        body,
      });
    for (const path of ["change-password", "confirm", "two-factor/enable", "two-factor/disable"]) {
      expect((await post(path, { password: "x", newPassword: "y" })).status).toBe(403);
    }
    // Nor does it accept an invitation somewhere else in the person's name.
    const body = { email: user.email, role: "viewer" };
    await runSql(
      fixture.ownerUrl,
      `DELETE FROM member WHERE user_id = '${user.id}' AND organization_id = '${theirs.organization.id}'`,
    );
    const { token } = (await call(app, "POST", "/v1/invitations", { apiKey: theirs.apiKey, body }))
      .body;
    const accepted = await call(app, "POST", "/api/invitations/accept", {
      ...{ headers: { ...session, origin: CONSOLE_URL }, body: { token } },
    });
    expect(accepted.body.code).toBe("account_exists");
  });

  test("links a member by their address, once: another subject does not become them", async () => {
    const { ours } = fixture;
    await putConnection({ domains: ["corp.example", "example.com"] });
    const owner = person({ email: ours.email });
    const { session } = await signIn(owner);
    expect((await me(session)).body).toMatchObject({ role: "owner", user: { email: ours.email } });
    expect((await signIn(person({ email: ours.email }))).to).toBe(refused("account_exists"));
    // The session sees sessions of its kind alone: passwords are not the provider's.
    await sessionOf(fixture.app, ours);
    const { items } = (await call(fixture.app, "GET", "/v1/me/sessions", { headers: session }))
      .body;
    expect(items).toHaveLength(1);
    await putConnection();
  });
});

describe("a proof of identity", () => {
  const invite = (headers: Browser) =>
    call(fixture.app, "POST", "/v1/invitations", {
      headers,
      body: { email: `${newId("usr").toLowerCase()}@x.example` },
    });

  async function admin() {
    const ada = person();
    await call(fixture.app, "POST", "/v1/invitations", {
      ...{ apiKey: fixture.ours.apiKey, body: { email: ada.email, role: "admin" } },
    });
    const { session } = await signIn(ada);
    expect((await invite(session)).body.code).toBe("reauthentication_required");
    return { ada, session };
  }

  async function prove(session: Browser, who: Claims) {
    provider.person = who;
    const started = await start("", "confirm", session);
    const url = new URL(started.body.location);
    expect([url.searchParams.get("prompt"), url.searchParams.get("max_age")]).toEqual([
      "login",
      "0",
    ]);
    const back = await provider.signIn(url.href);
    const answer = await come(back, { cookie: `${session.cookie}; ${cookiesOf(started)}` });
    return answer.headers.get("location");
  }

  test("is a sign-in only if the provider says when it took place", async () => {
    const { ada, session } = await admin();
    const minutesAgo = (minutes: number): Tampering => {
      const auth_time = Math.floor(Date.now() / 1_000) - minutes * 60;
      return { claims: (all) => ({ ...all, auth_time }) };
    };
    expect((await invite(session)).body.code).toBe("reauthentication_required");
    provider.tamper = minutesAgo(20);
    const old = await signIn(ada);
    expect((await invite(old.session)).body.code).toBe("reauthentication_required");
    provider.tamper = minutesAgo(1);
    const fresh = await signIn(ada);
    expect((await invite(fresh.session)).status).toBe(201);
  });

  test("is given at the provider, by the same person, in a new sign-in", async () => {
    const { ada, session } = await admin();
    const problem = (reason: string) => `${CONSOLE_URL}/settings?sso=${reason}`;
    expect(await prove(session, person())).toBe(problem("other_person"));
    expect((await invite(session)).status).toBe(403);
    provider.tamper = { claims: (all) => ({ ...all, auth_time: Number(all.auth_time) - 120 }) };
    expect(await prove(session, ada)).toBe(problem("provider"));
    provider.tamper = {};
    expect(await prove(session, ada)).toBe(`${CONSOLE_URL}/settings`);
    expect((await invite(session)).status).toBe(201);
    const log = (await events("session.confirm")).filter(
      ({ auth_method }) => auth_method === "sso",
    );
    expect(log.map(({ result }) => result)).toEqual(["success", "failure", "failure"]);
  });

  test("needs a session by single sign-on", async () => {
    const session = await sessionOf(fixture.app, fixture.ours);
    expect((await start("", "confirm", session)).status).toBe(401);
    expect((await start("", "confirm")).status).toBe(401);
  });
});

test("where single sign-on is required, passwords open the organization for owners alone", async () => {
  const { app, ours, theirs, apiDb } = fixture;
  const organization = ours.organization.id;
  await apiDb
    .tenant(organization)
    .organizations.putMember(
      ...([organization, (await me(await sessionOf(app, theirs))).body.user.id, "admin"] as const),
    );
  const session = await sessionOf(app, theirs);
  const here = { ...session, "millrace-organization": organization };
  expect((await me(here)).status).toBe(200);
  expect((await putConnection({ required: true })).body.connection.required).toBe(true);
  const answer = await me(here);
  expect([answer.status, answer.body.code]).toEqual([403, "sso_required"]);
  expect(answer.body.detail).toBe("ours requires single sign-on.");
  // What else the person has is theirs as before, also where this one was shown last.
  const shown = { cookie: `${session.cookie}; millrace-organization=${organization}` };
  expect((await me(shown)).body.organization.id).toBe(theirs.organization.id);
  expect((await me(session)).body.organization.id).toBe(theirs.organization.id);
  expect((await me(await sessionOf(app, ours))).body.role).toBe("owner");
  expect((await me((await signIn(person())).session)).status).toBe(200);
  await putConnection({ required: false });
  expect((await me(here)).status).toBe(200);
});

describe("the settings", () => {
  test("are owners' alone, keep the secret to themselves, and are in the audit log", async () => {
    const { app, ours } = fixture;
    const { apiKey } = ours;
    const { body } = await call(app, "GET", "/v1/single-sign-on", { apiKey });
    expect(body).toMatchObject({
      connection: { issuer: provider.issuer, domains: ["corp.example"], default_role: "developer" },
    });
    const { id, redirect_uri } = body.connection;
    expect(redirect_uri).toBe(`${CONSOLE_URL}/api/sso/callback/${id}`);
    expect(JSON.stringify(body)).not.toContain(CLIENT_SECRET);
    const { client_secret: _, ...kept } = SETTINGS;
    const again = await call(app, "POST", "/v1/single-sign-on", {
      apiKey,
      body: { ...kept, default_role: "viewer" },
    });
    expect(again.body.connection).toMatchObject({ id: body.connection.id, default_role: "viewer" });
    expect((await me((await signIn(person())).session)).body.role).toBe("viewer");
    await putConnection();
    const [event] = await events("singleSignOn.set");
    expect(event).toMatchObject({
      ...{ result: "success", target_id: body.connection.id },
      before: { issuer: provider.issuer, defaultRole: "viewer" },
      after: { issuer: provider.issuer, defaultRole: "developer" },
    });
    expect(JSON.stringify(await events("singleSignOn.set"))).not.toContain(CLIENT_SECRET);
  });

  test("take no API key that can do less than an owner", async () => {
    const { app, ours } = fixture;
    const limits = [
      { permissions: ["sso:write"] },
      { allowed_addresses: ["127.0.0.0/8"] },
      { expires_at: new Date(Date.now() + 3_600_000).toISOString() },
    ];
    for (const limit of limits) {
      const made = await call(app, "POST", "/v1/api-keys", {
        ...{ apiKey: ours.apiKey, body: { name: "narrow", role: "owner", ...limit } },
      });
      const apiKey = made.body.secret;
      const set = await putConnection({}, apiKey);
      expect(set.status).toBe(403);
      expect(set.body.detail).toMatch(
        /does not have the permission|is limited by address or expiry/,
      );
      const removed = await call(app, "DELETE", "/v1/single-sign-on", { apiKey });
      expect(removed.body.code).toBe("forbidden");
    }
  });

  test("of another client are another connection: subjects of the earlier one mean nobody", async () => {
    const ada = person();
    const { session } = await signIn(ada);
    const { id } = (await putConnection()).body.connection;
    expect((await me(session)).status).toBe(200);
    const { client_secret: _, ...without } = SETTINGS;
    const body = { ...without, client_id: "another" };
    const { apiKey } = fixture.ours;
    const kept = await call(fixture.app, "POST", "/v1/single-sign-on", { apiKey, body });
    expect(kept.body.errors).toMatchObject([{ pointer: "/client_secret", code: "required" }]);
    const moved = await putConnection({ client_id: "another" });
    expect(moved.body.connection.id).not.toBe(id);
    expect((await me(session)).status).toBe(401);
    await putConnection();
    expect((await signIn({ ...ada, email: `other-${ada.sub}@corp.example` })).to).toBe(
      `${CONSOLE_URL}/clusters?a=b`,
    );
    const { items } = (await call(fixture.app, "GET", "/v1/members?page_size=1000", { apiKey }))
      .body;
    const known = items.filter(({ email }: { email: string }) => email === ada.email);
    expect(known).toHaveLength(1);
  });

  test("end every session when a domain is removed", async () => {
    await putConnection({ domains: ["corp.example", "more.example"] });
    const { session } = await signIn(person());
    await putConnection({ domains: ["corp.example", "more.example", "most.example"] });
    expect((await me(session)).status).toBe(200);
    await putConnection();
    expect((await me(session)).status).toBe(401);
  });

  test("name domains that no other organization has", async () => {
    const answer = await putConnection({}, fixture.theirs.apiKey);
    expect([answer.status, answer.body.code]).toEqual([409, "sso_domain_taken"]);
    const own = await call(fixture.app, "GET", "/v1/single-sign-on", {
      apiKey: fixture.theirs.apiKey,
    });
    expect(own.body.connection).toBeNull();
  });

  test.each([
    [{ issuer: "http://localhost" }, "validation_failed"],
    [{ issuer: `${provider.issuer}/another` }, "sso_provider_refused"],
    [{ issuer: `${provider.issuer}/.well-known/openid-configuration` }, "validation_failed"],
    [{ domains: [] }, "validation_failed"],
    [{ domains: ["localhost"] }, "validation_failed"],
    [{ default_role: "owner" }, "validation_failed"],
  ])("%j: %s", async (changes, code) => {
    expect((await putConnection(changes)).body.code).toBe(code);
  });

  test.each(["https://169.254.169.254", "https://10.0.0.1"])(
    "do not lead to %s",
    async (issuer) => {
      const { body } = await putConnection({ issuer });
      expect(body.code).toBe("sso_provider_refused");
      const { host } = new URL(issuer);
      expect(body.detail).toMatch(`${host} has an address that is not on the public Internet.`);
    },
  );

  test("end every session and link when they are removed, and need a secret for another issuer", async () => {
    const { app, ours } = fixture;
    const { apiKey } = ours;
    const ada = person();
    const { session } = await signIn(ada);
    const started = await start();
    const remove = () => call(app, "DELETE", "/v1/single-sign-on", { apiKey });
    expect((await remove()).status).toBe(204);
    expect((await me(session)).status).toBe(401);
    const [removal] = await events("singleSignOn.delete");
    expect(removal).toMatchObject({ result: "success", before: { issuer: provider.issuer } });
    expect(removal.target_id).toMatch(/^sso_/);
    expect((await remove()).status).toBe(404);
    expect((await start()).status).toBe(404);
    provider.person = ada;
    const back = await provider.signIn(started.body.location);
    const answer = await come(back, { cookie: cookiesOf(started) });
    expect(answer.headers.get("location")).toBe(refused("expired"));
    const { client_secret: _, ...without } = SETTINGS;
    const body = { ...without };
    expect((await call(app, "POST", "/v1/single-sign-on", { apiKey, body })).body.code).toBe(
      "validation_failed",
    );
    expect((await putConnection()).status).toBe(200);
    // The member is found again by the address.
    expect((await me((await signIn(ada)).session)).body.user.email).toBe(ada.email);
  });
});

describe("outsiders", () => {
  frozenDate();

  test("of one network do not hide what others are refused", async () => {
    const refuse = async (address: string) => {
      const started = await start();
      const back = new URL(new URL(started.body.location).searchParams.get("redirect_uri") ?? "");
      const answer = await call(fixture.app, "GET", `${back.pathname}?state=forged`, {
        headers: { cookie: cookiesOf(started), "x-forwarded-for": address },
      });
      expect(answer.headers.get("location")).toBe(refused("provider"));
      return (await events("session.create"))[0].client_address;
    };
    expect(await refuse("198.51.100.8")).toBe("198.51.100.8");
    await runSql(
      fixture.ownerUrl,
      `UPDATE rate_limit SET count = 50 WHERE key LIKE 'audit|sso|%|198.51.100.8%'`,
    );
    expect(await refuse("198.51.100.9")).toBe("198.51.100.9");
    expect(await refuse("198.51.100.8")).toBe("198.51.100.9");
  });

  test("ask for sign-ins from one address at most 60 times per minute", async () => {
    const headers = { origin: CONSOLE_URL, "x-forwarded-for": "198.51.100.7" };
    const ask = () =>
      call(fixture.app, "POST", "/api/sso/start", { headers, body: { name: "no-such" } });
    const statuses: number[] = [];
    for (let tries = 0; tries < 61; tries += 1) statuses.push((await ask()).status);
    expect([statuses[0], statuses.at(-1)]).toEqual([404, 429]);
    const foreign = await call(fixture.app, "POST", "/api/sso/start", {
      ...{ headers: { origin: "https://elsewhere.example" }, body: { name: "ours" } },
    });
    expect(foreign.status).toBe(403);
  });
});
