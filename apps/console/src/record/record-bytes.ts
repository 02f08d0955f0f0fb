/** A record's bytes as people read them. */
import type { RecordBytes } from "@millrace/contract";

/** Characters of one line of a list. */
const PREVIEW_CHARS_MAX = 160;
/** A hex view beyond this is scrolled by nobody; the copied value is whole. */
export const HEX_BYTES_MAX = 16 * 1024;
const HEX_ROW_BYTES = 16;
/**
 * Line breaks and other control characters would break a line of a list; bidirectional marks and
 * characters without width would make it read as another one.
 */
const CONTROL = /[\p{Cc}\p{Cf}\u2028\u2029]+/gu;

/** One line; the beginning where it is long. */
export function previewOf(bytes: RecordBytes): string {
  if (bytes.encoding === "text") {
    const text = bytes.data.slice(0, PREVIEW_CHARS_MAX).replace(CONTROL, " ");
    return bytes.data.length > PREVIEW_CHARS_MAX || bytes.truncated ? `${text}…` : text;
  }
  const head = rawBytes(bytes).subarray(0, 24);
  return `${[...head].map(hex).join(" ")}${bytes.bytes > head.length ? " …" : ""}`;
}

/** The bytes themselves. */
export function rawBytes({ encoding, data }: Pick<RecordBytes, "encoding" | "data">): Uint8Array {
  if (encoding === "text") return new TextEncoder().encode(data);
  if (encoding === "hex") {
    return Uint8Array.from(data.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  }
  return Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
}

/** Offset, sixteen bytes and what they are in ASCII, line by line. */
export function hexDump(bytes: Uint8Array): string {
  const shown = bytes.subarray(0, HEX_BYTES_MAX);
  const lines: string[] = [];
  for (let start = 0; start < shown.length; start += HEX_ROW_BYTES) {
    const row = [...shown.subarray(start, start + HEX_ROW_BYTES)];
    const digits = row
      .map(hex)
      .join(" ")
      .padEnd(HEX_ROW_BYTES * 3 - 1);
    const ascii = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "."));
    lines.push(`${start.toString(16).padStart(6, "0")}  ${digits}  ${ascii.join("")}`);
  }
  return lines.join("\n");
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}
