/** Codes as an authenticator app shows them (RFC 6238: SHA-1, 30 seconds, 6 digits). */
import { createHmac } from "node:crypto";

const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const STEP_MS = 30_000;

/** The code for a key that was typed into the app; of a later step, which is accepted too, where one is used up. */
export function totpCode(key: string, stepsAhead: 0 | 1 = 0): string {
  const digits = key.replaceAll(" ", "").replace(/=+$/, "");
  const bits = [...digits].map((digit) => BASE32.indexOf(digit).toString(2).padStart(5, "0"));
  const bytes = bits.join("").match(/.{8}/g) ?? [];
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / STEP_MS) + stepsAhead));
  const secret = Buffer.from(bytes.map((byte) => Number.parseInt(byte, 2)));
  const digest = createHmac("sha1", secret).update(counter).digest();
  const offset = (digest.at(-1) ?? 0) & 0xf;
  return String((digest.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}
