import fc from "fast-check";
import { expect, test } from "vitest";
import { EventParser } from "./event-parser.ts";

const line = fc
  .string({ unit: "binary", maxLength: 20 })
  .map((text) => text.replace(/[\r\n]/g, ""));
const event = fc.record({
  id: fc.option(line, { nil: undefined }),
  data: fc.array(line, { minLength: 1, maxLength: 3 }),
  comment: fc.boolean(),
  crlf: fc.boolean(),
});

test("however a stream is cut into chunks, the same events come out", () => {
  fc.assert(
    fc.property(fc.array(event), fc.array(fc.nat({ max: 15 })), (events, cuts) => {
      let id: string | undefined;
      const expected = events.map((each) => {
        id = each.id ?? id;
        return { id, data: each.data.join("\n") };
      });
      let text = events.map(write).join("");
      const parser = new EventParser(1_000_000);
      const found = [];
      for (const cut of cuts) {
        found.push(...parser.push(text.slice(0, cut)));
        text = text.slice(cut);
      }
      found.push(...parser.push(text));
      expect(found).toEqual(expected);
    }),
  );
});

function write({
  id,
  data,
  comment,
  crlf,
}: typeof event extends fc.Arbitrary<infer E> ? E : never) {
  const lines = [
    ...(comment ? [": ping", "retry: 5"] : []),
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...data.map((each) => `data: ${each}`),
    "",
    "",
  ];
  return lines.join(crlf ? "\r\n" : "\n");
}

test("an event without end is cut at the bound, also in small chunks", () => {
  const parser = new EventParser(100);
  expect(() => {
    for (let chunk = 0; chunk < 20; chunk += 1) parser.push("data: xx\nda");
  }).toThrow("more than 100 characters");
  const other = new EventParser(100);
  expect(() => {
    for (let chunk = 0; chunk < 20; chunk += 1) other.push("x".repeat(10));
  }).toThrow("more than 100 characters");
});

test("many events in a row never reach the bound of one", () => {
  const parser = new EventParser(100);
  for (let chunk = 0; chunk < 100; chunk += 1) {
    expect(parser.push(`data: ${"x".repeat(50)}\n\n`)).toHaveLength(1);
  }
});
