import { expect, test } from "vitest";
import { apiKeyHash, newApiKeySecret } from "./api-key-secret.ts";

test("a secret is found by its hash, and its hint gives nothing away", () => {
  const { secret, hash, hint } = newApiKeySecret();
  expect(apiKeyHash(secret)).toEqual(hash);
  expect(secret.length - hint.length).toBeGreaterThan(30);
  expect(newApiKeySecret().secret).not.toBe(secret);
});

test.each(["", "mrk_", "Bearer x", `mrk_${"a".repeat(42)}`, `mrk_${"a".repeat(44)}`])(
  "%j is no secret",
  (text) => {
    expect(apiKeyHash(text)).toBeUndefined();
  },
);
