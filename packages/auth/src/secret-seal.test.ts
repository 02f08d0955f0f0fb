import { expect, test } from "vitest";
import { SecretSeal } from "./secret-seal.ts";

const seal = new SecretSeal("a secret of the tests, long enough", "test");
const OWNER = ["org_1", "sso_1"];

test("a sealed secret opens for its owner, by the secret and the purpose that sealed it", () => {
  const sealed = seal.seal("hunter2", OWNER);
  expect(Buffer.from(sealed).toString("latin1")).not.toContain("hunter2");
  expect(seal.open(sealed, OWNER)).toBe("hunter2");
  expect(seal.open(sealed, ["org_2", "sso_1"])).toBeUndefined();
  const other = new SecretSeal("another secret of the tests, long enough", "test");
  expect(other.open(sealed, OWNER)).toBeUndefined();
  const purpose = new SecretSeal("a secret of the tests, long enough", "mail");
  expect(purpose.open(sealed, OWNER)).toBeUndefined();
});

test("no changed byte goes unnoticed, and nothing is sealed twice in the same way", () => {
  const sealed = seal.seal("hunter2", OWNER);
  for (let index = 0; index < sealed.length; index += 1) {
    const changed = sealed.slice();
    changed[index] = (changed[index] ?? 0) ^ 1;
    expect(seal.open(changed, OWNER)).toBeUndefined();
  }
  expect(seal.open(new Uint8Array(), OWNER)).toBeUndefined();
  expect(seal.seal("hunter2", OWNER)).not.toEqual(sealed);
});

test("what a replaced secret sealed opens, and is sealed again by the secret in use", () => {
  const sealed = seal.seal("hunter2", OWNER);
  const [next, old] = [
    "the next secret of the tests, long enough",
    "a secret of the tests, long enough",
  ];
  const rotated = new SecretSeal(next, "test", ["one between them, which sealed nothing", old]);
  expect(rotated.open(sealed, OWNER)).toBe("hunter2");
  const resealed = rotated.reseal(sealed, OWNER);
  expect(new SecretSeal(next, "test").open(resealed ?? new Uint8Array(), OWNER)).toBe("hunter2");
  expect(rotated.reseal(resealed ?? new Uint8Array(), OWNER), "it is current").toBeUndefined();
  expect(rotated.reseal(sealed, ["org_2", "sso_1"]), "it is somebody else's").toBeUndefined();
});
