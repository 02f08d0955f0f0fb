import { describe, expect, it } from "vitest";
import { isNewEnough } from "./aws-tools.ts";

describe("Terraform", () => {
  it.each([
    ["1.11.0", true],
    ["1.11.4", true],
    ["1.12.0-beta1", true],
    ["2.0.0", true],
    ["1.5.7", false],
    ["0.15.0", false],
    ["", false],
    [undefined, false],
  ])("%s: new enough is %s", (version, expected) => {
    expect(isNewEnough(version)).toBe(expected);
  });
});
