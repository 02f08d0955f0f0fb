import { SsoRefused } from "@millrace/domain";
import { expect, test } from "vitest";
import { vouchedPerson } from "./vouched-person.ts";

const ISSUER = "https://login.example.com";
const ADA = { email: "Ada@Corp.example", email_verified: true, name: " Ada " };

test("an address is kept in lower case, a name without spaces around it", () => {
  expect(vouchedPerson(ISSUER, { sub: "1" }, ADA)).toEqual({
    ...{ subject: "1", email: "ada@corp.example", name: "Ada", domains: ["corp.example"] },
    authenticatedAt: new Date(0),
  });
});

test("a proof of identity is as old as the provider says, and never in the future", () => {
  const at = (auth_time: number) => vouchedPerson(ISSUER, { sub: "1", auth_time }, ADA);
  expect(at(1_700_000_000).authenticatedAt).toEqual(new Date(1_700_000_000_000));
  expect(at(99_999_999_999).authenticatedAt.getTime()).toBeLessThanOrEqual(Date.now());
});

test.each([
  ["a control character", "a\u0000b@corp.example"],
  ["the Kelvin sign, which is k in lower case", "ada@\u212Aorp.example"],
  ["a direction mark", "ada\u202e@corp.example"],
  ["a line", "ada\n@corp.example"],
  ["no address", "corp.example"],
  ["no text", 1],
  ["a long address", `${"a".repeat(250)}@corp.example`],
])("an address with %s is none", (_, email) => {
  const make = () => vouchedPerson(ISSUER, { sub: "1" }, { ...ADA, email });
  expect(make).toThrow(expect.objectContaining({ refusal: "email_unverified" }));
});

test.each(["a\u0000b", "\u202egnp.exe", "\ud800", "", 7, undefined])(
  "a name that cannot be shown is the address: %j",
  (name) => {
    const { name: shown } = vouchedPerson(ISSUER, { sub: "1" }, { ...ADA, name });
    expect(shown).toBe("ada@corp.example");
  },
);

test("a long name is cut between characters", () => {
  const name = `${"a".repeat(99)}\u{1f600}b`;
  expect(vouchedPerson(ISSUER, { sub: "1" }, { ...ADA, name }).name).toBe(name.slice(0, -1));
});

test.each(["", "s".repeat(256), "\u0000", "\u212a"])("the subject %j is refused", (sub) => {
  expect(() => vouchedPerson(ISSUER, { sub }, ADA)).toThrow(SsoRefused);
});

test("Google says by `hd` whose account it is", () => {
  const google = (claims: object) =>
    vouchedPerson("https://accounts.google.com", { sub: "1" }, { ...ADA, ...claims }).domains;
  expect(google({ hd: "corp.example" })).toEqual(["corp.example", "corp.example"]);
  expect(google({ hd: "else.example" })).toContain("else.example");
  expect(google({})).toEqual(["corp.example", "no hosted domain"]);
});
