import fc from "fast-check";
import { expect, test } from "vitest";
import { indentedJson } from "./json-text.ts";

test("any JSON looks as the standard writer indents it", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue())),
      (value) => {
        const text = JSON.stringify(value);
        expect(indentedJson(text)).toBe(JSON.stringify(value, null, 2));
        expect(indentedJson(JSON.stringify(value, null, "\t"))).toBe(
          JSON.stringify(value, null, 2),
        );
      },
    ),
  );
});

test("a small record that is nested without end is left as it is, at once", () => {
  const started = performance.now();
  expect(indentedJson("[".repeat(32_000) + "]".repeat(32_000))).toBeUndefined();
  expect(performance.now() - started).toBeLessThan(1_000);
  expect(indentedJson("[".repeat(64) + "]".repeat(64))).toBeDefined();
  expect(indentedJson("[".repeat(65) + "]".repeat(65))).toBeUndefined();
});

test("text that is large, or that indenting makes large, is left as it is", () => {
  expect(indentedJson(JSON.stringify(["x".repeat(256 * 1024)]))).toBeUndefined();
  const wide = `${"[".repeat(60)}${"1,".repeat(20_000)}1${"]".repeat(60)}`;
  expect(indentedJson(wide)).toBeUndefined();
});

test("a number keeps each of its digits", () => {
  expect(indentedJson('{"id":9007199254740993,"price":1.10}')).toBe(
    '{\n  "id": 9007199254740993,\n  "price": 1.10\n}',
  );
});

test.each(["", "plain", "17", '"text"', "{", "[1,]", "{'a':1}"])("%j is left as it is", (text) => {
  expect(indentedJson(text)).toBeUndefined();
});
