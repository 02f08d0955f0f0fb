import { expect, test } from "vitest";
import { contracts } from "./contracts.ts";

test("names and routes are unique", () => {
  const names = contracts.map((contract) => contract.name);
  const routes = contracts.map((contract) => `${contract.method} ${contract.path}`);
  expect(new Set(names).size).toBe(names.length);
  expect(new Set(routes).size).toBe(routes.length);
});

/** One line of the reference page's list. */
const SUMMARY_LENGTH_MAX = 30;

test.each(contracts)(
  "$name: its title is a few words, not a sentence over four lines",
  (contract) => {
    expect(contract.summary.length).toBeLessThanOrEqual(SUMMARY_LENGTH_MAX);
    expect(contract.summary).not.toMatch(/[.,;:]/);
  },
);

test.each(contracts)("$name: the path's segments are its params", (contract) => {
  const inPath = [...contract.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  expect(inPath).toEqual(Object.keys(contract.params));
});

test.each(contracts)("$name: no field name is used in two parts", (contract) => {
  const fields = [contract.params, contract.query, contract.headers, contract.body].flatMap(
    (part) => Object.keys(part),
  );
  expect(new Set(fields).size).toBe(fields.length);
  expect(Object.keys(contract.input.shape).sort()).toEqual(fields.sort());
});

test.each(contracts)("$name: an unknown field is an error", (contract) => {
  const answer = contract.input.safeParse({ no_such_field: 1 });
  expect(answer.error?.issues.some((issue) => issue.code === "unrecognized_keys")).toBe(true);
});

/** Covers reading an access review and recording it; impersonations have neither. */
const READS_AND_RECORDS = "access:review";

test.each(contracts)(
  "$name: only reads are GET, and only POST and PATCH have a body",
  (contract) => {
    if (contract.permission !== READS_AND_RECORDS) {
      expect(contract.method === "GET").toBe(contract.permission.endsWith(":read"));
    }
    const hasBody = contract.method === "POST" || contract.method === "PATCH";
    if (!hasBody) expect(Object.keys(contract.body)).toEqual([]);
  },
);

test("what grants rights or destroys data needs a recent proof of identity", () => {
  const names = contracts.filter(({ stepUp }) => stepUp).map(({ name }) => name);
  expect(names.sort()).toEqual([
    "acl.applyTemplate",
    "acl.create",
    "acl.delete",
    "apiKey.create",
    "apiKey.rotate",
    "cluster.delete",
    "environment.delete",
    "invitation.create",
    "member.delete",
    "member.update",
    "operation.approve",
    "outgoingMail.open",
    "role.create",
    "role.delete",
    "role.update",
    "serviceAccount.create",
    "serviceAccount.delete",
    "serviceAccount.update",
    "serviceAccountKey.create",
    "singleSignOn.delete",
    "singleSignOn.set",
    "topic.delete",
    "user.create",
    "user.rotate",
  ]);
});
