import { expect, test } from "vitest";
import { synthesizeControlPlane } from "../src/stacks/control-plane/control-plane-stack.ts";
import { keepingEarlierBuilds } from "../tools/bootstrap/earlier-builds.ts";
import { CONTROL_PLANE } from "./control-plane-fixture.ts";
import { OFFLINE } from "./stack-fixture.ts";

const stack = synthesizeControlPlane({ ...CONTROL_PLANE, stage: "foundation" }, OFFLINE);
const [present] = Object.keys(JSON.parse(stack).resource.aws_s3_object);

function stateOf(...addresses: string[]): string {
  const resources = addresses.map((address) => ({ address, type: address.split(".")[0] }));
  return JSON.stringify({ format_version: "1.0", values: { root_module: { resources } } });
}

test("builds that the stack does not hold are let go, and not deleted", () => {
  // All builds once shared the first of these addresses.
  const earlier = ["aws_s3_object.artefacts_build", "aws_s3_object.artefacts_build-5f4b035772f6"];
  const state = stateOf("aws_s3_bucket.artefacts_builds_bucket", ...earlier, "aws_vpc.old");
  const kept = JSON.parse(keepingEarlierBuilds(stack, state));
  const lifecycle = { destroy: false };
  expect(kept.removed).toEqual(earlier.map((from) => ({ from, lifecycle })));
  expect({ ...kept, removed: undefined }).toEqual(JSON.parse(stack));
});

test("nothing is added where there is nothing to keep", () => {
  expect(keepingEarlierBuilds(stack, stateOf(`aws_s3_object.${present}`))).toBe(stack);
  expect(keepingEarlierBuilds(stack, stateOf())).toBe(stack);
  // What Terraform says before anything was applied.
  expect(keepingEarlierBuilds(stack, '{"format_version":"1.0"}')).toBe(stack);
});
