import { expect, test } from "vitest";
import { Refused } from "../tools/bootstrap/refused.ts";
import { secretsVersion } from "../tools/bootstrap/secrets-version.ts";

test("secrets stay as they are unless a higher version is asked for", () => {
  expect(secretsVersion(undefined, undefined)).toBe(1);
  expect(secretsVersion(undefined, 3)).toBe(3);
  expect(secretsVersion(3, 3)).toBe(3);
  expect(secretsVersion(4, 3)).toBe(4);
});

test("a lower version is refused, and says what to give", () => {
  expect(() => secretsVersion(2, 3)).toThrow(Refused);
  expect(() => secretsVersion(2, 3)).toThrow(
    "--secrets-version: the installation has version 3; give 4",
  );
});

test("a new installation has version 1", () => {
  expect(secretsVersion(1, undefined)).toBe(1);
  expect(() => secretsVersion(2, undefined)).toThrow(Refused);
  expect(() => secretsVersion(2, undefined)).toThrow("leave the option out");
});
