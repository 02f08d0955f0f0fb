import { expect, test } from "vitest";
import { JsonLines, LINE_BYTES_MAX } from "./json-lines.ts";

test("lines are joined from any pieces, even within a character", () => {
  const text = '{"a":"ü"}\nplain words\n\n[1]\n{"b":2}\n{"cut';
  const bytes = Buffer.from(text);
  for (let size = 1; size <= bytes.length; size += 1) {
    const lines = new JsonLines();
    const seen: unknown[] = [];
    const buffer = Buffer.alloc(size);
    for (let at = 0; at < bytes.length; at += size) {
      const length = bytes.copy(buffer, 0, at, at + size);
      seen.push(...lines.push(buffer.subarray(0, length)));
    }
    expect(seen).toEqual([{ a: "ü" }, "plain words", "[1]", { b: 2 }]);
  }
});

test("a line that is too long is skipped and counted; the next is read", () => {
  const lines = new JsonLines();
  const block = Buffer.alloc(64 * 1024, "x");
  for (let bytes = 0; bytes <= LINE_BYTES_MAX; bytes += block.length) {
    expect(lines.push(block)).toEqual([]);
  }
  expect(lines.push(Buffer.from('end\n{"a":1}\n'))).toEqual([{ a: 1 }]);
  expect(lines.skipped).toBe(1);
});
