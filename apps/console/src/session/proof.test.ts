import { expect, test } from "vitest";
import { onProofNeeded, proveIdentity } from "./proof.ts";

test("requests that are refused together ask once, later ones again", async () => {
  let times = 0;
  const forget = onProofNeeded(async () => {
    times += 1;
    return true;
  });
  expect(await Promise.all([proveIdentity(), proveIdentity()])).toEqual([true, true]);
  expect(times).toBe(1);
  await proveIdentity();
  expect(times).toBe(2);
  forget();
  expect(await proveIdentity()).toBe(false);
});
