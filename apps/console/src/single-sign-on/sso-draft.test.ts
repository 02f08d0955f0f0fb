import { expect, test } from "vitest";
import { type Connection, draftOf, problemsOf, requestOf } from "./sso-draft.ts";

const connection: Connection = {
  ...{ id: "sso_1", issuer: "https://login.example.com", client_id: "millrace" },
  redirect_uri: "https://console.example/api/sso/callback/sso_1",
  ...{ domains: ["example.com"], default_role: "developer", required: true },
  ...{ created_at: "2026-11-23T10:00:00Z", updated_at: "2026-11-23T10:00:00Z" },
};

test("a stored connection is sent back as it is, without a secret", () => {
  const draft = draftOf(connection);
  expect(requestOf(draft)).toEqual({
    ...{ issuer: "https://login.example.com", client_id: "millrace" },
    ...{ domains: ["example.com"], default_role: "developer", required: true },
  });
  expect(Object.values(problemsOf(draft, connection))).toEqual([null, null, null, null]);
});

test("a new connection, and another issuer or client, need a secret", () => {
  const empty = draftOf(null);
  expect(Object.values(problemsOf(empty, null))).not.toContain(null);
  const moved = { ...draftOf(connection), issuer: "https://other.example.com" };
  expect(problemsOf(moved, connection).clientSecret).toMatch("Enter the client secret");
  const renamed = { ...draftOf(connection), clientId: "another" };
  expect(problemsOf(renamed, connection).clientSecret).toMatch("Enter the client secret");
  expect(requestOf({ ...moved, clientSecret: "s" })).toMatchObject({ client_secret: "s" });
});

test("a domain is a name with a dot, and an issuer has https", () => {
  const draft = { ...draftOf(connection), domains: ["localhost"], issuer: "http://a.example" };
  expect(problemsOf(draft, connection)).toMatchObject({
    domains: "localhost is not a domain such as example.com",
    issuer: "Enter an address with https://",
  });
});
