import { expect, test } from "vitest";
import { pageByName } from "./page.ts";

const names = ["d", "a", "c", "b", "e"];

test("pages by name cover the list once, in order", () => {
  const seen: string[] = [];
  let after: string | undefined;
  do {
    const page = pageByName(names, (name) => name, after, 2);
    seen.push(...page.items);
    after = page.last;
  } while (after !== undefined);
  expect(seen).toEqual(["a", "b", "c", "d", "e"]);
});

test("a page that holds the rest is the last one", () => {
  expect(pageByName(names, (name) => name, undefined, 5).last).toBeUndefined();
  expect(pageByName([], (name: string) => name, undefined, 5)).toEqual({
    items: [],
    last: undefined,
  });
});

test("a name that was deleted in between loses nobody", () => {
  const rest = names.filter((name) => name !== "b");
  expect(pageByName(rest, (name) => name, "b", 5).items).toEqual(["c", "d", "e"]);
});
