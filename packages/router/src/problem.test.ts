import { createCluster } from "@millrace/contract";
import { DomainError, ERROR_KINDS } from "@millrace/domain";
import { TRPCError } from "@trpc/server";
import { expect, test } from "vitest";
import { toProblem } from "./problem.ts";

const CONTEXT = { requestId: "req_1", instance: "/v1/clusters" };

test.each(Object.keys(ERROR_KINDS) as (keyof typeof ERROR_KINDS)[])(
  "%s keeps its code and status, wrapped or not",
  (code) => {
    const error = new DomainError(code, "what");
    const wrapped = new TRPCError({ code: "INTERNAL_SERVER_ERROR", cause: error });
    for (const each of [error, wrapped]) {
      expect(toProblem(each, CONTEXT)).toMatchObject({
        code,
        status: ERROR_KINDS[code].status,
        detail: "what",
        request_id: "req_1",
      });
    }
  },
);

test("an unknown field is named by a JSON pointer", () => {
  const { error } = createCluster.input.safeParse({ name: "a", "x/y": 1 });
  expect(toProblem(error, CONTEXT)).toMatchObject({
    code: "validation_failed",
    status: 400,
    errors: [{ pointer: "/x~1y", code: "unknown_field" }],
  });
});

test("what we did not foresee tells the caller nothing of its cause", () => {
  const problem = toProblem(new Error("password of the database"), CONTEXT);
  expect(problem).toMatchObject({ code: "internal", status: 500 });
  expect(JSON.stringify(problem)).not.toContain("password");
});

test.each(["BAD_REQUEST", "PARSE_ERROR", "UNSUPPORTED_MEDIA_TYPE"] as const)(
  "tRPC's %s is the caller's mistake",
  (code) => {
    const problem = toProblem(new TRPCError({ code }), CONTEXT);
    expect(problem).toMatchObject({ code: "validation_failed", status: 400, retryable: false });
  },
);
