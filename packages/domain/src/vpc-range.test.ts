import { expect, test } from "vitest";
import { CONTROL_PLANE_VPC_RANGE, freeVpcRange, rangesOverlap } from "./vpc-range.ts";

test("each range that is chosen overlaps with none before, until there are no more", () => {
  const taken: string[] = [];
  for (let range = freeVpcRange(taken); range !== undefined; range = freeVpcRange(taken)) {
    for (const each of taken) expect(rangesOverlap(range, each)).toBe(false);
    taken.push(range);
  }
  expect(taken[0]).toBe("10.40.0.0/16");
  expect(taken.at(-1)).toBe("10.255.0.0/16");
  expect(taken).toHaveLength(215);
  expect(taken.some((range) => rangesOverlap(range, CONTROL_PLANE_VPC_RANGE))).toBe(false);
});

test("a range within one, and one around it, are both in the way", () => {
  expect(freeVpcRange(["10.40.7.0/24"])).toBe("10.41.0.0/16");
  expect(freeVpcRange(["10.32.0.0/11"])).toBe("10.64.0.0/16");
  expect(freeVpcRange(["10.0.0.0/8"])).toBeUndefined();
  expect(freeVpcRange(["192.168.0.0/16", "10.41.0.0/16"])).toBe("10.40.0.0/16");
});

test.each([
  ["10.40.0.0/16", "10.40.255.0/24", true],
  ["10.40.0.0/16", "10.41.0.0/16", false],
  ["0.0.0.0/0", "255.255.255.255/32", true],
  ["172.16.0.1/12", "172.31.255.255/32", true],
])("%s and %s", (a, b, expected) => {
  expect(rangesOverlap(a, b)).toBe(expected);
  expect(rangesOverlap(b, a)).toBe(expected);
});
