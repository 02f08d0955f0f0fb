import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { BROKER_VERSIONS } from "./broker-version.ts";

test("new clusters get the version of the broker beside this control plane", async () => {
  const manifest = new URL("../../../dataplane/Cargo.toml", import.meta.url);
  const version = /^\[workspace\.package\][^[]*^version = "([^"]+)"/ms.exec(
    await readFile(manifest, "utf8"),
  )?.[1];
  expect(BROKER_VERSIONS[0]).toBe(version);
});
