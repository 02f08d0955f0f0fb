import { expect, test } from "vitest";
import { snippetsFor } from "./snippets.ts";

test("each snippet has a topic of its own: it reads back what it wrote, not another's record", () => {
  const topics = snippetsFor("localhost:9092").map(
    ({ code }) => new Set(code.match(/hello-[a-z]+/g)),
  );
  expect(topics.map(({ size }) => size)).toEqual([1, 1, 1, 1]);
  expect(new Set(topics.flatMap((names) => [...names])).size).toBe(4);
});
