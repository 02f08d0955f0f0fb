import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DecryptCommand, EncryptCommand } from "@aws-sdk/client-kms";
import { describe, expect, test } from "vitest";
import {
  fileWrappingKey,
  KmsWrappingKey,
  kmsWrappingKey,
  replacedWrappingKeys,
  type StateIdentity,
  StateSeal,
  SymmetricWrappingKey,
  type WrappingKey,
} from "./state-seal.ts";

const identity: StateIdentity = {
  organizationId: "org_a",
  clusterId: "clu_a",
  version: 3,
  serial: 7,
  lineage: "l",
};
const SECRET = "a canary that must appear in no column";
const text = Buffer.from(`{"serial":7,"secret":"${SECRET}"}`);

function newKey(): WrappingKey {
  return new SymmetricWrappingKey(randomBytes(32));
}

describe("a sealed state", () => {
  test("is decrypted again, and reveals nothing of its text", async () => {
    const seal = new StateSeal(newKey());
    const stored = await seal.seal(identity, text);
    expect(Buffer.from(await seal.open(stored)).equals(text)).toBe(true);
    for (const bytes of [stored.ciphertext, stored.wrappedKey]) {
      expect(Buffer.from(bytes).toString("latin1")).not.toContain("canary");
    }
  });

  test.each([
    { organizationId: "org_b" },
    { clusterId: "clu_b" },
    { version: 4 },
    { serial: 8 },
    { lineage: "m" },
  ])("cannot be decrypted in another place: %o", async (place) => {
    const seal = new StateSeal(newKey());
    const moved = { ...(await seal.seal(identity, text)), ...place };
    await expect(seal.open(moved)).rejects.toMatchObject({ code: "config" });
  });

  test("cannot be decrypted with any bit changed", async () => {
    const seal = new StateSeal(newKey());
    const stored = await seal.seal(identity, text);
    for (const field of ["ciphertext", "wrappedKey"] as const) {
      for (let at = 0; at < stored[field].length; at += 1) {
        const bytes = Uint8Array.from(stored[field]);
        bytes[at] = (bytes[at] ?? 0) ^ 1;
        await expect(seal.open({ ...stored, [field]: bytes })).rejects.toThrow(
          "cannot be decrypted",
        );
      }
    }
  });

  test("has one data key per tenant, and another for another", async () => {
    const seal = new StateSeal(newKey());
    const [a, again, b] = await Promise.all([
      seal.seal(identity, text).then((stored) => stored),
      seal.seal({ ...identity, version: 4 }, text),
      seal.seal({ ...identity, organizationId: "org_b" }, text),
    ]);
    await expect(seal.open({ ...b, wrappedKey: a.wrappedKey })).rejects.toThrow();
    expect(Buffer.from(a.ciphertext).equals(Buffer.from(again.ciphertext))).toBe(false);
  });
});

describe("rotation", () => {
  test("rewraps the data key and leaves the ciphertext unchanged", async () => {
    const [old, next] = [newKey(), newKey()];
    const stored = await new StateSeal(old).seal(identity, text);
    const seal = new StateSeal(next, [old]);
    const wrapped = await seal.rewrapped(stored);
    expect(wrapped?.keyId).toBe(next.id);
    const moved = { ...stored, ...wrapped };
    // The old key is gone for good.
    const later = new StateSeal(next);
    expect(Buffer.from(await later.open(moved)).equals(text)).toBe(true);
    expect(await later.rewrapped(moved)).toBeUndefined();
    await expect(later.open(stored)).rejects.toThrow("does not have");
  });
});

test("a key file that is moved aside opens and rewraps what it has sealed", async () => {
  const keys = join(await mkdtemp(join(tmpdir(), "millrace-keys-")), "keys");
  const [current, replaced] = [join(keys, "state.key"), join(keys, "replaced")];
  expect(await replacedWrappingKeys(replaced)).toEqual([]);
  const stored = await new StateSeal(await fileWrappingKey(current)).seal(identity, text);
  await mkdir(replaced);
  await rename(current, join(replaced, "1.key"));
  const next = await fileWrappingKey(current);
  const seal = new StateSeal(next, await replacedWrappingKeys(replaced));
  expect(Buffer.from(await seal.open(stored)).equals(text)).toBe(true);
  const moved = { ...stored, ...(await seal.rewrapped(stored)) };
  expect(moved.keyId).toBe(next.id);
  expect(Buffer.from(await new StateSeal(next).open(moved)).equals(text)).toBe(true);
  await rm(join(keys, ".."), { recursive: true });
});

describe("the key's file", () => {
  test("is created once, readable only by its owner", async () => {
    const home = await mkdtemp(join(tmpdir(), "millrace-keys-"));
    const path = join(home, "keys", "state.key");
    const first = await fileWrappingKey(path);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await fileWrappingKey(path)).id).toBe(first.id);
    expect(first.id).not.toContain((await readFile(path, "utf8")).trim());
    await writeFile(path, "half");
    await expect(fileWrappingKey(path)).rejects.toThrow("64 hexadecimal digits");
    await rm(home, { recursive: true });
  });

  test("is the same for programs that start concurrently, and leaves no other file", async () => {
    const home = await mkdtemp(join(tmpdir(), "millrace-keys-"));
    for (let round = 0; round < 20; round += 1) {
      const path = join(home, String(round), "state.key");
      const keys = await Promise.all(Array.from({ length: 8 }, () => fileWrappingKey(path)));
      expect(new Set(keys.map((key) => key.id)).size).toBe(1);
      expect((await fileWrappingKey(path)).id).toBe(keys[0]?.id);
      expect(await readdir(join(home, String(round)))).toEqual(["state.key"]);
    }
    await rm(home, { recursive: true });
  });
});

test("a KMS key is given by its whole ARN", () => {
  const arn = "arn:aws:kms:eu-central-1:123456789012:key/k";
  expect(kmsWrappingKey(arn).id).toBe(`kms:${arn}`);
  expect(() => kmsWrappingKey("alias/k")).toThrow("no ARN of a KMS key");
});

test("a KMS key is used with the tenant as its context", async () => {
  const kms = {
    send: async (command: unknown) => {
      if (command instanceof EncryptCommand) {
        const { Plaintext, EncryptionContext } = command.input;
        const wrapped = { key: Buffer.from(Plaintext ?? []).toString("hex"), EncryptionContext };
        return { CiphertextBlob: Buffer.from(JSON.stringify(wrapped)) };
      }
      if (!(command instanceof DecryptCommand)) throw new Error("another command");
      const blob = JSON.parse(Buffer.from(command.input.CiphertextBlob ?? []).toString());
      expect(blob.EncryptionContext).toEqual(command.input.EncryptionContext);
      return { Plaintext: Buffer.from(blob.key, "hex") };
    },
  };
  const key = new KmsWrappingKey("arn:aws:kms:eu-central-1:1:key/k", kms as never);
  const seal = new StateSeal(key);
  const stored = await seal.seal(identity, text);
  expect(stored.keyId).toBe("kms:arn:aws:kms:eu-central-1:1:key/k");
  expect(Buffer.from(await seal.open(stored)).equals(text)).toBe(true);
  await expect(seal.open({ ...stored, organizationId: "org_b" })).rejects.toThrow();
});
