import { expect, test } from "vitest";
import { HEX_BYTES_MAX, hexDump, previewOf, rawBytes } from "./record-bytes.ts";

const given = (encoding: "text" | "base64" | "hex", data: string, bytes = data.length) => ({
  encoding,
  data,
  bytes,
  truncated: false,
});

test("bytes are the same however they were sent", () => {
  const expected = new Uint8Array([0xc3, 0xa4, 0x21]);
  expect(rawBytes(given("text", "ä!"))).toEqual(expected);
  expect(rawBytes(given("base64", "w6Qh"))).toEqual(expected);
  expect(rawBytes(given("hex", "c3A421"))).toEqual(expected);
  expect(rawBytes(given("hex", ""))).toEqual(new Uint8Array());
});

test("a hex view has offsets, bytes and their characters", () => {
  const bytes = new TextEncoder().encode("0123456789abcdef\u0000z");
  expect(hexDump(bytes)).toBe(
    [
      "000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef",
      "000010  00 7a                                            .z",
    ].join("\n"),
  );
});

test("a hex view of megabytes is bounded", () => {
  const lines = hexDump(new Uint8Array(4 * 1024 * 1024)).split("\n");
  expect(lines).toHaveLength(HEX_BYTES_MAX / 16);
});

test("a preview is one short line", () => {
  expect(previewOf(given("text", "a\r\n\tb\u0000c"))).toBe("a b c");
  expect(previewOf(given("text", "user\u202etxt.exe\u200b\u2066!\u2028\u2029?"))).toBe(
    "user txt.exe ! ?",
  );
  expect(previewOf(given("text", "x".repeat(500)))).toHaveLength(161);
  expect(previewOf({ ...given("text", "cut"), truncated: true })).toBe("cut…");
  expect(previewOf(given("base64", "/wAB", 3))).toBe("ff 00 01");
  expect(previewOf(given("base64", "/wAB", 300))).toBe("ff 00 01 …");
});
