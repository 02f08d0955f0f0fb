import { expect, test } from "vitest";
import { pageOf } from "./page.ts";

const rows = ["a", "b", "c"].map((id, index) => ({ id, createdAt: new Date(index) }));

test("a page knows where the next one begins, and that there is none", () => {
  const page = pageOf(rows, 2, (row) => row.id);
  expect(page).toEqual({ items: ["a", "b"], next: { id: "b", createdAt: new Date(1) } });
  expect(pageOf(rows, 3, (row) => row.id)).toEqual({ items: ["a", "b", "c"], next: undefined });
  expect(pageOf([], 3, (row: (typeof rows)[0]) => row.id)).toEqual({ items: [], next: undefined });
});
