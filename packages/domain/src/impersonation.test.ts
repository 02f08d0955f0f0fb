import { expect, test } from "vitest";
import { allowsImpersonated } from "./impersonation.ts";
import { PERMISSIONS } from "./role.ts";

const READS = PERMISSIONS.filter((permission) => permission.endsWith(":read"));

test("without write access an impersonation only reads, and neither records nor mails", () => {
  const allowed = PERMISSIONS.filter((each) => allowsImpersonated({ mayWrite: false }, each));
  expect(allowed).toEqual(READS.filter((each) => each !== "record:read" && each !== "mail:read"));
});

test("write access covers how a cluster runs, and nothing that outlasts the impersonation", () => {
  const allowed = PERMISSIONS.filter((each) => allowsImpersonated({ mayWrite: true }, each));
  expect(allowed.filter((each) => !READS.includes(each))).toEqual([
    "operation:cancel",
    "operation:write",
    "quota:write",
    "tuning:write",
    "benchmark:run",
  ]);
});
