import type { OrganizationId } from "@millrace/domain";
import { expect, test } from "vitest";
import { BrokerCalls } from "./broker-calls.ts";

const OURS = "org_ours" as OrganizationId;
const THEIRS = "org_theirs" as OrganizationId;

test("one organization's calls to brokers are bounded, and leave others theirs", () => {
  const calls = new BrokerCalls();
  for (let made = 0; made < 300; made += 1) calls.take(OURS);
  expect(() => {
    for (let made = 0; made < 100; made += 1) calls.take(OURS);
  }).toThrow("limit is 30 broker requests per second");
  calls.take(THEIRS);
});
