import { expect, test } from "vitest";
import { apiFixture, call } from "./fixture.ts";

const fixture = apiFixture({ rateLimit: true });

/** A try from an address of its own, as behind a proxy any client can claim. */
function trySignIn(email: string, password: string, address: string) {
  return call(fixture.app, "POST", "/api/auth/sign-in/email", {
    body: { email, password },
    headers: { "x-forwarded-for": address },
  });
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

test("one address has fewer tries than an account, so that it alone locks nobody out", async () => {
  const statuses: number[] = [];
  for (let index = 0; index < 25; index += 1) {
    const answer = await trySignIn("nobody@example.com", "not the password", "198.51.100.1");
    statuses.push(answer.status);
  }
  expect(statuses.filter((status) => status === 401)).toHaveLength(20);
  expect((await trySignIn("nobody@example.com", "n".repeat(12), "198.51.100.2")).status).toBe(401);
});
