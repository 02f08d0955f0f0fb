import { expect, test } from "vitest";
import { linkCredential, linkCredentialIn } from "./broker-link.ts";

const secret = Buffer.from(Array.from({ length: 32 }, (_, index) => 255 - index)).toString(
  "base64url",
);

test("a credential is read back from its header", () => {
  const credential = linkCredential(secret);
  expect(credential).toMatch(/^mlk_[A-Za-z0-9_-]{43}$/);
  expect(linkCredentialIn(`Bearer ${credential}`)).toBe(credential);
  expect(linkCredentialIn(`bearer ${credential}`)).toBe(credential);
});

test.each(["", secret.slice(1), `${secret}A`, `${secret.slice(1)}+`])("%s is no secret", (text) => {
  expect(() => linkCredential(text)).toThrow(/32 bytes/);
});

test.each([
  undefined,
  "",
  "Bearer",
  "Bearer mlk_",
  `Basic ${linkCredential(secret)}`,
  linkCredential(secret),
  `Bearer ${linkCredential(secret)}A`,
  `Bearer ${linkCredential(secret).slice(0, -1)}`,
  `Bearer mrk_${"a".repeat(43)}`,
])("%s has no credential", (authorization) => {
  expect(linkCredentialIn(authorization)).toBeUndefined();
});
