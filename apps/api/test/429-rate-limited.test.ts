import { expect, test } from "vitest";
import { apiFixture, CONSOLE_URL, call } from "./fixture.ts";
import { frozenDate } from "./frozen-date.ts";

const fixture = apiFixture({ rateLimit: true });
frozenDate();

/** A try from an address of its own, as behind a proxy any client can claim. */
function trySignIn(email: string, password: string, address: string, cookie?: string) {
  return call(fixture.app, "POST", "/api/auth/sign-in/email", {
    body: { email, password },
    headers: {
      "x-forwarded-for": address,
      ...(cookie !== undefined && { cookie, origin: CONSOLE_URL }),
    },
  });
}

/** The cookie by which a browser that has signed in is known. */
function deviceOf({ headers }: { readonly headers: Headers }): string {
  const device = headers.getSetCookie().find((each) => each.startsWith("millrace.device="));
  return device?.split(";")[0] ?? "";
}

test("who claims ever new addresses still has few tries per account", async () => {
  const { ours, theirs } = fixture;
  const statuses: number[] = [];
  for (let index = 0; index < 35; index += 1) {
    // The account is the same however its address is written.
    const email = index % 2 === 0 ? ours.email : ours.email.toUpperCase();
    statuses.push((await trySignIn(email, "not the password", `203.0.113.${index}`)).status);
  }
  expect(new Set(statuses.slice(0, 30))).toEqual(new Set([401]));
  expect(new Set(statuses.slice(30))).toEqual(new Set([429]));
  expect((await trySignIn(ours.email, ours.password, "203.0.113.99")).status).toBe(429);
  expect((await trySignIn(theirs.email, theirs.password, "203.0.113.99")).status).toBe(200);
});

test("outsiders lock nobody out of a browser that has signed in before", async () => {
  const { ours, theirs } = fixture;
  // Their account, since the tests above have used up the tries for ours.
  const first = await trySignIn(theirs.email, theirs.password, "203.0.113.200");
  const device = deviceOf(first);
  expect(first.headers.getSetCookie().join()).toMatch(/millrace\.device=.*HttpOnly; SameSite=Lax/);
  for (let index = 0; index < 40; index += 1) {
    await trySignIn(theirs.email, "not the password", `192.0.2.${index}`);
  }
  const other = await trySignIn(theirs.email, theirs.password, "192.0.2.201");
  expect(other.status).toBe(429);
  const known = await trySignIn(theirs.email, theirs.password, "192.0.2.202", device);
  expect(known.status).toBe(200);
  const forged = `${device.slice(0, -4)}AAAA`;
  const statusOf = async (email: string, cookie: string) =>
    (await trySignIn(email, theirs.password, "192.0.2.203", cookie)).status;
  expect(await statusOf(theirs.email, forged)).toBe(429);
  // The cookie of one account is worth nothing for another.
  expect(await statusOf(ours.email, device)).toBe(429);
  const statuses: number[] = [];
  for (let index = 0; index < 12; index += 1) {
    const guess = await trySignIn(theirs.email, "a guess", `192.0.2.${index + 100}`, device);
    statuses.push(guess.status);
  }
  expect(statuses.at(-1)).toBe(429);
});

test("one address has fewer tries than an account, so that it alone locks nobody out", async () => {
  const statuses: number[] = [];
  for (let index = 0; index < 25; index += 1) {
    const answer = await trySignIn("nobody@example.com", "not the password", "198.51.100.1");
    statuses.push(answer.status);
  }
  expect(statuses.filter((status) => status === 401)).toHaveLength(20);
  expect((await trySignIn("nobody@example.com", "n".repeat(12), "198.51.100.2")).status).toBe(401);
});
