/** Codes as an authenticator app shows them (RFC 6238: SHA-1, 30 seconds, 6 digits). */
import { createHmac } from "node:crypto";

const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const STEP_MS = 30_000;

/**
 * The code for the key in an `otpauth:` address. A code works once; that of the next step is accepted too, so a
 * test has two codes without waiting.
 */
export function totpCode(uri: string, stepsAhead: 0 | 1 = 0): string {
  const key = fromBase32(new URL(uri).searchParams.get("secret") ?? "");
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / STEP_MS) + stepsAhead));
  const digest = createHmac("sha1", key).update(counter).digest();
  const offset = (digest.at(-1) ?? 0) & 0xf;
  return String((digest.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

function fromBase32(text: string): Buffer {
  const digits = text.replace(/=+$/, "");
  const bits = [...digits].map((digit) => BASE32.indexOf(digit).toString(2).padStart(5, "0"));
  const bytes = bits.join("").match(/.{8}/g) ?? [];
  return Buffer.from(bytes.map((byte) => Number.parseInt(byte, 2)));
}
