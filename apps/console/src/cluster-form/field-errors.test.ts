import type { Problem } from "@millrace/contract";
import { expect, test } from "vitest";
import { fieldErrorsOf } from "./field-errors.ts";

function problem(detail: string, errors: Problem["errors"]): Problem {
  return {
    type: "",
    title: "",
    status: 400,
    detail,
    instance: "",
    code: "",
    request_id: "",
    retryable: false,
    errors,
  };
}

test("errors stand at their fields as sentences, several of one field together", () => {
  const errors = [
    { pointer: "/name", code: "too_small", message: "must not be empty" },
    { pointer: "/name", code: "invalid_format", message: "must start with a letter" },
    { pointer: "/size", code: "invalid_value", message: "must be one of dev, small" },
  ];
  expect(fieldErrorsOf(problem("", errors))).toEqual({
    "/name": "Must not be empty. Must start with a letter",
    "/size": "Must be one of dev, small",
  });
});

test("a taken name is named", () => {
  const detail = 'A cluster named "orders" already exists here.';
  const errors = [{ pointer: "/name", code: "taken", message: "is used by another cluster" }];
  expect(fieldErrorsOf(problem(detail, errors))).toEqual({ "/name": detail });
});
