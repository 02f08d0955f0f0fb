import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "./settings.ts";

test("the README lists every topic configuration that has no effect", () => {
  const read = (file: string) => readFileSync(join(root, file), "utf8");
  const config = read("dataplane/crates/millrace-log/src/config.rs");
  const [, code = ""] = /ACCEPTED_WITHOUT_EFFECT: &\[&str\] = &\[(.*?)\];/s.exec(config) ?? [];
  const accepted = [...code.matchAll(/"([^"]+)"/g)].map(([, name]) => name);
  const item = /- \*\*Topic configurations without effect\.\*\*(.*?)\n\n/s.exec(read("README.md"));
  const listed = [...(item?.[1] ?? "").matchAll(/`([^`]+)`/g)].map(([, name]) => name);
  expect(accepted.length).toBeGreaterThan(0);
  expect(listed.toSorted()).toEqual(accepted.toSorted());
});
